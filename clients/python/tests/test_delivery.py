"""When the same bytes go out again: the rules alone, without any gateway."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onceward import GatewayUnreachable, Refused
from onceward._claims import Asked, Grant, claim, settle
from onceward._clock import now_ms
from onceward._delivery import CALL, PARTING, SETTLEMENT, Pause, Persistence, Send, deliver
from onceward._ends import End
from onceward._wire import Delivered, NoReply, Reply, Request, read_reply
from onceward.answer import read_call
from onceward.attempt import Attempt
from onceward.errors import NEVER, OF_OUTCOME, SAME_IDENTITY, OperationError
from onceward.heartbeat import _first_s

NAMED = Request("POST", "/v1/tools/x/calls", b"{}", operation_id="o-1")
NAMELESS = Request("POST", "/v1/tools/x/calls", b"{}", repeatable=False)
DONE = Reply(200, {"outcome": "executed"})
LOST = NoReply("it broke", may_have_been_sent=True)
NOT_SENT = NoReply("no connection", may_have_been_sent=False)


def refused(code: str, retry_after_ms: int | None = None) -> Reply:
    return Reply(503, {"code": code, "detail": "…"}, retry_after_ms)


def outcome_of(
    request: Request, deliveries: list[Delivered], persistence: Persistence = CALL
) -> tuple[Reply | str, int, list[float]]:
    """What came of it, how often it was sent, and the pauses between."""
    flow = deliver(request, persistence)
    sent, pauses, step = 0, [], next(flow)
    try:
        while True:
            if isinstance(step, Pause):
                pauses.append(step.ms)
                step = flow.send(None)
            else:
                assert step == Send(request), "the same bytes"
                sent += 1
                step = flow.send(deliveries[min(sent, len(deliveries)) - 1])
    except StopIteration as done:
        return done.value, sent, pauses
    except GatewayUnreachable as error:
        return "may have been sent" if error.may_have_been_sent else "not sent", sent, pauses


@pytest.mark.parametrize(
    ("request_", "deliveries", "result", "sent"),
    [
        (NAMED, [DONE], DONE, 1),
        (NAMED, [LOST, DONE], DONE, 2),
        (NAMED, [NOT_SENT, LOST, DONE], DONE, 3),
        (NAMED, [LOST], "may have been sent", 3),
        (NAMED, [NOT_SENT], "not sent", 3),
        (NAMED, [LOST, NOT_SENT], "may have been sent", 3),
        (NAMED, [refused("overloaded")], refused("overloaded"), 3),
        (NAMED, [LOST, refused("overloaded")], "may have been sent", 3),
        (NAMED, [LOST, refused("denied")], refused("denied"), 2),
        (NAMELESS, [LOST, DONE], "may have been sent", 1),
        (NAMELESS, [NOT_SENT, DONE], DONE, 2),
        (NAMELESS, [NOT_SENT, LOST, DONE], "may have been sent", 2),
        (NAMELESS, [refused("overloaded"), DONE], refused("overloaded"), 1),
    ],
)
def test_a_request_goes_out_again_only_where_its_repetition_is_recognised(
    request_: Request, deliveries: list[Delivered], result: Reply | str, sent: int
) -> None:
    assert outcome_of(request_, deliveries)[:2] == (result, sent)


@pytest.mark.parametrize("code", sorted(SAME_IDENTITY | NEVER | {"a_new_one"}))
def test_exactly_the_codes_that_are_about_the_gateway_itself_are_delivered_again(code: str) -> None:
    again = {"overloaded", "ledger_busy", "ledger_unavailable", "commit_unknown", "shutting_down", "tools_not_known"}
    assert outcome_of(NAMED, [refused(code), DONE])[1] == (2 if code in again else 1)
    assert outcome_of(NAMED, [refused(code), DONE], SETTLEMENT)[1] == (
        2 if code in again | {"timeout", "internal"} else 1
    )


@pytest.mark.parametrize("outcome", sorted(OF_OUTCOME))
def test_an_outcome_is_told_and_never_delivered_again(outcome: str) -> None:
    told = Reply(503, {"outcome": outcome, "code": outcome, "detail": "…"}, retry_after_ms=1000)
    assert outcome_of(NAMED, [told, DONE])[:2] == (told, 1)
    with pytest.raises(OF_OUTCOME[outcome]):
        read_call(told)


def test_pauses_are_by_chance_within_bounds_and_as_long_as_asked() -> None:
    pauses = [pause for _ in range(50) for pause in outcome_of(NAMED, [LOST])[2]]
    assert len(pauses) == 100 and len(set(pauses)) > 50
    assert all(50 <= pause <= 500 for pause in pauses)
    assert all(pause >= 1000 for pause in outcome_of(NAMED, [refused("overloaded", 1000)])[2])
    assert all(pause == 2000 for pause in outcome_of(NAMED, [refused("overloaded", 60_000)])[2])


def test_a_settlement_is_delivered_for_half_a_minute_and_a_parting_word_for_two_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("onceward._delivery.now_ms", lambda: clock[0])
    for persistence, seconds in ((SETTLEMENT, 30), (PARTING, 2)):
        clock[0] = 0.0
        flow = deliver(NAMED, persistence)
        step = next(flow)
        with pytest.raises(GatewayUnreachable):
            while True:
                clock[0] += step.ms if isinstance(step, Pause) else 100
                step = flow.send(None if isinstance(step, Pause) else LOST)
        assert clock[0] <= seconds * 1000 + 100
        assert persistence is PARTING or clock[0] > 25_000


def test_an_outcome_and_a_code_that_are_new_are_raised_and_not_swallowed() -> None:
    with pytest.raises(OperationError) as raised:
        read_call(Reply(409, {"outcome": "postponed", "message": "Later.", "operation_id": "o-1"}))
    assert type(raised.value) is OperationError and str(raised.value) == "postponed (o-1): Later."
    for status, repeat in ((503, "same_identity"), (429, "same_identity"), (409, "never")):
        with pytest.raises(Refused) as refused_:
            read_call(Reply(status, {"code": "brand_new", "detail": "New."}))
        assert (refused_.value.code, refused_.value.repeat) == ("brand_new", repeat)
    with pytest.raises(Refused):
        read_call(Reply(200, {"something": "else"}))


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (302, b""),
        (502, b"<html>Bad Gateway</html>"),
        (503, b'{"error":"no backend"}'),
        (200, b"[]"),
        (200, b"{"),
        (405, b""),
    ],
)
def test_what_is_no_gateways_answer_counts_as_a_lost_reply(status: int, content: bytes) -> None:
    assert read_reply(status, {}, content) == NoReply(
        f"what answered with HTTP {status} is no gateway of Onceward", True
    )


def _grant() -> Grant:
    return Grant(Attempt("op-1", 1, "key", "2026-11-29T00:00:00Z", "2026-11-29T00:01:00Z"), "secret", 60_000, 0.0)


def test_an_interruption_while_a_settlement_is_delivered_loses_no_receipt() -> None:
    flow = settle(_grant(), End("done", body=b"1"))
    first = next(flow)
    again = flow.throw(KeyboardInterrupt())
    assert isinstance(first, Send) and isinstance(again, Send)
    assert again.request.body == first.request.body, "the same settlement, once more"
    with pytest.raises(KeyboardInterrupt):
        flow.send(Reply(200, {"outcome": "executed"}, None, None))


@pytest.mark.parametrize(
    "body",
    [
        {"ok": True},
        {"operation_id": "another", "attempt": 1, "secret": "s"},
        {"operation_id": "op-1", "attempt": "1", "secret": "s"},
        {"operation_id": "op-1", "attempt": 1},
    ],
)
def test_what_answers_201_and_is_no_grant_of_this_claim_runs_nothing(body: dict[str, object]) -> None:
    flow = claim(Asked("op-1", "{}", {"tool": "t", "settle_within_ms": 60_000}, 60_000, 0))
    next(flow)
    with pytest.raises(GatewayUnreachable, match="did not run"):
        flow.send(Reply(201, body, None, None))


def test_who_is_stopped_is_stopped_also_where_what_answers_is_no_gateway() -> None:
    flow = claim(Asked("op-1", "{}", {"tool": "t", "settle_within_ms": 60_000}, 60_000, 0))
    next(flow)
    flow.throw(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        flow.send(Reply(201, {"ok": True}, None, None))


def test_a_claim_that_was_long_on_its_way_is_kept_so_much_earlier() -> None:
    fresh = replace(_grant(), asked_at_ms=now_ms())
    assert 19.0 < _first_s(fresh) <= 20.0
    assert 4.0 < _first_s(replace(fresh, asked_at_ms=now_ms() - 15_000)) <= 5.0
    assert _first_s(replace(fresh, asked_at_ms=now_ms() - 30_000)) == 0.0
