"""Own functions under the client that blocks: run once, whatever is lost, and told honestly."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from gateway import Bench, until

from onceward import (
    GatewayUnreachable,
    InvalidJson,
    NotDispatched,
    NotSent,
    Onceward,
    OperationConflict,
    OperationInProgress,
    OperationRejected,
    OperationUnknown,
    ReceiptNotKept,
    Refused,
    Rejected,
    SettlementNotRecorded,
    current_attempt,
    new_operation_id,
)
from onceward.functions import OwnFunction
from onceward.testing import lose_reply, losing_reply


class Reports:
    """A destination in memory that counts its effects."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def make(self, name: str, rows: int = 1) -> dict[str, Any]:
        self.made.append({"id": f"R-{len(self.made) + 1}", "name": name, "rows": rows})
        return self.made[-1]


@pytest.fixture
def reports() -> Reports:
    return Reports()


Create = OwnFunction[[str, int], dict[str, Any]]


@pytest.fixture
def create(client: Onceward, reports: Reports) -> OwnFunction[..., dict[str, Any]]:
    @client.operation("create_report", title="Report {name}", effect_id=lambda value: value["id"])
    def create_report(name: str, rows: int = 1) -> dict[str, Any]:
        """Makes a report."""
        return reports.make(name, rows)

    return create_report


def test_it_runs_and_its_repetition_gets_the_same_value(
    bench: Bench, create: OwnFunction[..., Any], reports: Reports
) -> None:
    operation = new_operation_id()
    first = create("Q3", rows=5, operation=operation)
    assert first == create.under(operation)(name="Q3", rows=5) == {"id": "R-1", "name": "Q3", "rows": 5}
    assert len(reports.made) == 1
    shown = bench.ask("GET", f"/v1/operations/{operation}")["operation"]
    assert (shown["title"], shown["effect_id"], shown["arguments"]) == ("Report Q3", "R-1", {"name": "Q3", "rows": 5})


def test_a_default_that_is_written_out_is_the_same_call_and_another_value_is_a_conflict(
    create: OwnFunction[..., Any], reports: Reports
) -> None:
    operation = new_operation_id()
    create("Q3", operation=operation)
    create("Q3", 1, operation=operation)
    with pytest.raises(OperationConflict) as raised:
        create("Q3", 2, operation=operation)
    assert [one["at"] for one in raised.value.differences] == ["/rows"]
    assert len(reports.made) == 1


def test_without_an_operation_it_says_the_way_out_and_the_original_is_there(
    create: OwnFunction[..., Any], reports: Reports
) -> None:
    with pytest.raises(TypeError, match="create_report.under"):
        create("Q3")
    with pytest.raises(TypeError, match="unexpected keyword"):
        create("Q3", colour="red", operation=new_operation_id())
    assert reports.made == []
    assert create.function("Q3")["id"] == "R-1"
    assert (create.function.__name__, create.__doc__) == ("create_report", "Makes a report.")


def test_arguments_that_are_no_strict_json_are_refused_before_the_claim(
    bench: Bench, client: Onceward, create: OwnFunction[..., Any]
) -> None:
    operation = new_operation_id()
    for name in (("a", "b"), {"when": object()}, float("nan"), 2**53, {1: "a"}, "\ud800"):
        with pytest.raises(InvalidJson):
            create(name, operation=operation)
    assert create("Q3", operation=operation)["id"] == "R-1", "nothing was claimed under it"


def test_the_attempt_is_there_while_it_runs_and_nowhere_else(client: Onceward) -> None:
    @client.operation("whoami")
    def whoami() -> dict[str, Any]:
        attempt = current_attempt()
        assert attempt.send_before and attempt.settle_by
        return {"operation": attempt.operation_id, "attempt": attempt.attempt, "key": attempt.outbound_key}

    operation = new_operation_id()
    told = whoami(operation=operation)
    assert (told["operation"], told["attempt"]) == (operation, 1)
    assert len(told["key"]) == 36
    with pytest.raises(LookupError, match="own function"):
        current_attempt()


@pytest.mark.parametrize("exchange", ["claim", "settlement"])
def test_a_lost_reply_of_the_gateway_changes_nothing(
    client: Onceward, create: OwnFunction[..., Any], reports: Reports, exchange: Any
) -> None:
    operation = new_operation_id()
    with lose_reply(client, to=exchange, times=2) as lost:
        assert create("Q3", operation=operation)["id"] == "R-1"
    assert lost.count == 2
    assert create("Q3", operation=operation)["id"] == "R-1"
    assert len(reports.made) == 1


def test_a_claim_that_is_given_up_runs_nothing(
    client: Onceward, create: OwnFunction[..., Any], reports: Reports
) -> None:
    operation = new_operation_id()
    with lose_reply(client, to="claim", times=9) as lost, pytest.raises(GatewayUnreachable) as raised:
        create("Q3", operation=operation)
    assert lost.count == 3 and raised.value.may_have_been_sent
    assert reports.made == [] and "the function did not run" in str(raised.value)


def test_however_many_call_at_once_it_runs_once_and_all_get_its_value(client: Onceward, reports: Reports) -> None:
    barrier = threading.Barrier(8)
    go = threading.Event()

    @client.operation("slow_report")
    def slow_report(name: str) -> dict[str, Any]:
        go.wait(10)
        return reports.make(name)

    def one(_: int) -> dict[str, Any]:
        barrier.wait()
        return slow_report.under(operation)("Q3")

    operation = new_operation_id()
    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(one, number) for number in range(8)]
        until(
            "one of them runs",
            lambda: client.status(operation).state == "pending" if _exists(client, operation) else None,
        )
        go.set()
        values = [future.result(30) for future in running]
    assert values == [{"id": "R-1", "name": "Q3", "rows": 1}] * 8
    assert len(reports.made) == 1


def _exists(client: Onceward, operation: str) -> bool:
    try:
        client.status(operation)
    except Refused as error:
        assert error.code == "not_found"
        return False
    return True


def test_who_does_not_want_to_wait_is_told_that_it_runs(client: Onceward) -> None:
    running, go = threading.Event(), threading.Event()

    @client.operation("slow", wait_ms=0)
    def slow() -> str:
        running.set()
        go.wait(10)
        return "done"

    operation = new_operation_id()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.under(operation))
        assert running.wait(10)
        with pytest.raises(OperationInProgress):
            slow(operation=operation)
        go.set()
        assert first.result(10) == "done"
    assert slow(operation=operation) == "done"


def test_whatever_is_raised_after_an_effect_is_unknown_and_nothing_runs_again(
    client: Onceward, reports: Reports
) -> None:
    create = client.operation("lost_report")(losing_reply(reports.make))
    operation = new_operation_id()
    with pytest.raises(OperationUnknown) as raised:
        create("Q3", operation=operation)
    assert isinstance(raised.value.__cause__, ConnectionError)
    with pytest.raises(OperationUnknown):
        create("Q3", operation=operation)
    assert len(reports.made) == 1


def test_what_surely_sent_nothing_may_run_again_under_the_same_id(client: Onceward, reports: Reports) -> None:
    failures: list[Exception] = [NotSent("no token"), httpx.ConnectError("refused")]

    @client.operation("careful_report", not_sent=(httpx.ConnectError,))
    def careful_report(name: str) -> dict[str, Any]:
        if failures:
            raise failures.pop(0)
        return {**reports.make(name), "attempt": current_attempt().attempt}

    operation = new_operation_id()
    for cause in (NotSent, httpx.ConnectError):
        with pytest.raises(NotDispatched) as raised:
            careful_report("Q3", operation=operation)
        assert isinstance(raised.value.__cause__, cause)
    assert careful_report("Q3", operation=operation)["attempt"] == 3
    assert len(reports.made) == 1


def test_a_refusal_is_final_and_replayed(client: Onceward) -> None:
    ran = []

    @client.operation("refused_report")
    def refused_report(name: str) -> None:
        ran.append(name)
        raise Rejected({"reason": "no such quarter"})

    operation = new_operation_id()
    for _ in range(2):
        with pytest.raises(OperationRejected) as raised:
            refused_report("Q9", operation=operation)
        assert raised.value.receipt is not None and raised.value.receipt.body == {"reason": "no such quarter"}
    assert ran == ["Q9"]


def test_who_stops_a_function_leaves_an_unknown_and_is_stopped(bench: Bench, client: Onceward) -> None:
    @client.operation("stopped")
    def stopped() -> None:
        raise KeyboardInterrupt

    operation = new_operation_id()
    with pytest.raises(KeyboardInterrupt):
        stopped(operation=operation)
    assert bench.state(operation) == "unknown"


def test_who_stops_a_function_is_stopped_also_where_the_gateway_is_gone(client: Onceward) -> None:
    link, inner = client._link, client._link.transport

    class Gone(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("gone")

    @client.operation("stopped_alone")
    def stopped() -> None:
        link.transport = Gone()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped(operation=new_operation_id())
    link.transport = inner


def test_who_is_stopped_while_it_claims_gives_the_claim_back(
    bench: Bench, client: Onceward, create: OwnFunction[..., Any], reports: Reports
) -> None:
    link = client._link
    inner = link.transport

    class Interrupting(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = inner.handle_request(request)
            link.transport = inner
            response.read()
            raise KeyboardInterrupt

    link.transport = Interrupting()
    operation = new_operation_id()
    with pytest.raises(KeyboardInterrupt):
        create("Q3", operation=operation)
    assert (bench.state(operation), reports.made) == ("approved", [])
    assert create("Q3", operation=operation)["id"] == "R-1"


def test_the_caller_gets_what_a_repetition_gets(client: Onceward) -> None:
    @client.operation("shapes", encode=lambda value: {"pair": value}, decode=lambda stored: tuple(stored["pair"]))
    def shapes() -> tuple[int, int]:
        return (1, 2)

    @client.operation("plain_shapes")
    def plain_shapes() -> Any:
        return {"pair": (1, 2), "big": 2**70, "price": 1.10}

    one, two = new_operation_id(), new_operation_id()
    assert shapes(operation=one) == shapes(operation=one) == (1, 2)
    assert plain_shapes(operation=two) == plain_shapes(operation=two) == {"pair": [1, 2], "big": 2**70, "price": 1.1}


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), "\ud800", "x" * 1024 * 1024, "x" * (1024 * 1024 - 100)],
    ids=["object", "nan", "surrogate", "large", "nearly"],
)
def test_a_value_that_cannot_be_kept_is_given_to_its_caller_and_the_effect_is_settled(
    bench: Bench, client: Onceward, value: Any
) -> None:
    ran = []
    tool = f"unkept.{type(value).__name__}.{len(str(value))}"

    @client.operation(tool)
    def unkept() -> Any:
        ran.append(1)
        return value

    operation = new_operation_id()
    with pytest.raises(ReceiptNotKept) as raised:
        unkept(operation=operation)
    assert raised.value.value is value and operation in str(raised.value)
    assert bench.state(operation) == "succeeded"
    assert unkept(operation=operation) is None
    assert ran == [1]


def test_a_value_that_only_this_gateway_finds_too_large_is_settled_without_it(bench: Bench, client: Onceward) -> None:
    link, inner, refused = client._link, client._link.transport, []

    class Small(httpx.BaseTransport):
        """A gateway with a smaller `body_bytes_max`."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/settlement") and len(request.read()) > 500:
                refused.append(1)
                return httpx.Response(413, json={"code": "too_large", "detail": "a body has at most 500 bytes"})
            return inner.handle_request(request)

    link.transport = Small()

    @client.operation("quite_large")
    def quite_large() -> str:
        return "x" * 500

    operation = new_operation_id()
    with pytest.raises(ReceiptNotKept):
        quite_large(operation=operation)
    assert (refused, bench.state(operation)) == ([1], "succeeded")
    link.transport = inner


def test_an_effect_id_that_cannot_be_told_loses_nothing_else(bench: Bench, client: Onceward) -> None:
    @client.operation("nameless", effect_id=lambda value: value["id"])
    def nameless() -> dict[str, Any]:
        return {"no": "id"}

    operation = new_operation_id()
    assert nameless(operation=operation) == {"no": "id"}
    assert bench.state(operation) == "succeeded"


def test_a_settlement_that_is_refused_gives_the_value_and_says_not_to_run_it_again(client: Onceward) -> None:
    link, inner = client._link, client._link.transport

    class Revoked(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/settlement"):
                return httpx.Response(
                    401, json={"code": "unauthenticated", "detail": "No credential, or not one that is known."}
                )
            return inner.handle_request(request)

    link.transport = Revoked()

    @client.operation("unsettled")
    def unsettled() -> dict[str, Any]:
        return {"id": "R-1"}

    operation = new_operation_id()
    with pytest.raises(SettlementNotRecorded, match="Do not run it again") as raised:
        unsettled(operation=operation)
    assert (raised.value.value, raised.value.operation_id, raised.value.ended) == ({"id": "R-1"}, operation, "done")
    link.transport = inner


def test_a_settlement_is_delivered_again_for_longer_than_a_call(
    client: Onceward, create: OwnFunction[..., Any], reports: Reports
) -> None:
    with lose_reply(client, to="settlement", times=4) as lost:
        assert create("Q3", operation=new_operation_id())["id"] == "R-1"
    assert (lost.count, len(reports.made)) == (4, 1)


def test_heartbeats_keep_a_function_that_runs_for_longer_than_its_time(bench: Bench, client: Onceward) -> None:
    @client.operation("long", settle_within_ms=900)
    def long() -> str:
        # The gateway sweeps every 2 s; without heartbeats it would have taken the claim back by then.
        until("several times its time", lambda: _beats(bench, operation) >= 10)
        return "done"

    operation = new_operation_id()
    with lose_reply(client, to="heartbeat", times=1) as lost:
        assert long(operation=operation) == "done"
    assert lost.count == 1
    assert "late" not in str(bench.ask("GET", f"/v1/operations/{operation}/journal"))


def _beats(bench: Bench, operation: str) -> int:
    entries = bench.ask("GET", f"/v1/operations/{operation}/journal?limit=200")["entries"]
    return len([entry for entry in entries if "extend" in entry["event"].lower()])


def test_a_function_that_ends_sooner_sends_no_heartbeat(bench: Bench, client: Onceward) -> None:
    @client.operation("short")
    def short() -> str:
        return ",".join(str(client.status(operation).state) for _ in range(10))

    operation = new_operation_id()
    assert short(operation=operation) == ",".join(["pending"] * 10)
    assert _beats(bench, operation) == 0


def test_a_settlement_that_comes_late_is_evidence_and_its_value_is_returned(bench: Bench, client: Onceward) -> None:
    @client.operation("late", settle_within_ms=200)
    def late() -> str:
        client._beats.close()  # a process that was stopped sends none either
        bench.until_state(operation, "unknown")
        return "done after all"

    operation = new_operation_id()
    assert late(operation=operation) == "done after all"
    assert bench.state(operation) == "succeeded"


def test_a_claim_that_was_answered_too_late_is_given_back_and_not_run(
    bench: Bench, client: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    @client.operation("suspended")
    def suspended() -> None:
        ran.append(1)

    monkeypatch.setattr("onceward._claims.Grant.is_too_old", True)
    operation = new_operation_id()
    with pytest.raises(NotDispatched):
        suspended(operation=operation)
    assert (ran, bench.state(operation)) == ([], "approved")


def test_what_cannot_be_an_own_function_is_said_when_it_is_written(client: Onceward) -> None:
    def variadic(*names: str) -> None: ...
    def hiding(operation: str) -> None: ...
    def generating() -> Any:
        yield 1

    async def awaiting() -> None: ...

    for function, words in (
        (variadic, "kept by name"),
        (hiding, "rename"),
        (generating, "generator"),
        (awaiting, "AsyncOnceward"),
    ):
        with pytest.raises(TypeError, match=words):
            client.operation("x")(function)
    with pytest.raises(TypeError, match="no parameter"):
        client.operation("x", title="{nobody}")(Reports().make)
    with pytest.raises(ValueError, match="settle_within_ms"):
        client.operation("x", settle_within_ms=3_600_000)
    client.operation("x")(Reports().make)
    with pytest.raises(ValueError, match="already"):
        client.operation("x")(Reports().make)


def test_a_child_process_has_connections_of_its_own(
    bench: Bench, client: Onceward, create: OwnFunction[..., Any]
) -> None:
    create("Q3", operation=new_operation_id())
    child = os.fork()
    if child == 0:
        try:
            create("Q4", operation=new_operation_id())
        except BaseException:
            os._exit(1)
        os._exit(0)
    for _ in range(20):
        create("Q3", operation=new_operation_id())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_arguments_are_read_with_the_defaults_that_were_left_out(client: Onceward) -> None:
    @client.operation("create_report")
    def create_report(name: str, rows: int = 5) -> None:
        pass

    assert (
        create_report.read({"name": "Q3"}) == create_report.read({"rows": 5, "name": "Q3"}) == {"name": "Q3", "rows": 5}
    )
    with pytest.raises(TypeError):
        create_report.read({"rows": 5})
