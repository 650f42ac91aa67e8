"""The protocol of one call of an own function: claim, then (the function runs), then settle. As flows, which nobody
carries out here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import _wire as wire
from ._clock import now_ms
from ._delivery import PARTING, SETTLEMENT, Flow, deliver
from ._ends import End
from ._wire import Reply, Request
from .answer import read_envelope, read_status
from .attempt import Attempt
from .envelope import Envelope
from .errors import GatewayUnreachable, Refused, SettlementNotRecorded, of_envelope


@dataclass(frozen=True)
class Asked:
    """One call of an own function, checked and written down, before anything is sent."""

    operation_id: str
    arguments: str
    """Canonical text."""
    members: Mapping[str, Any]
    """Of the claim: tool, settle_within_ms, title, lookup."""
    settle_within_ms: int
    wait_ms: int


@dataclass(frozen=True)
class Grant:
    """The right to run the function now. Its dispatch is marked already."""

    attempt: Attempt
    secret: str
    settle_within_ms: int
    asked_at_ms: float

    @property
    def is_too_old(self) -> bool:
        """Whether `send_before` may have passed, by our own clock: it was counted from the gateway's receiving the
        claim, no earlier than we asked.
        """
        return self.age_ms >= self.settle_within_ms

    @property
    def age_ms(self) -> float:
        """The most that can have passed since it was granted."""
        return now_ms() - self.asked_at_ms

    def heartbeat(self) -> Request:
        return wire.heartbeat(self.attempt.operation_id, self.attempt.attempt, self.secret, self.settle_within_ms)

    def settlement(self, end: End) -> Request:
        return wire.settlement(
            self.attempt.operation_id, self.attempt.attempt, self.secret, end.ended, end.effect_id, end.body
        )


def claim(asked: Asked) -> Flow[Grant | Envelope]:
    """The right to run the function, or the receipt of the run that there was.

    Waits for a run elsewhere, as long as `wait_ms`. Raises `OperationError`, `Refused`, `GatewayUnreachable`: the
    function must not run.
    """
    until = now_ms() + asked.wait_ms
    while True:
        asked_at = now_ms()
        # The token makes a second delivery of this claim find its grant. It names this one claim, so it is never stored
        # and never used again.
        request = wire.claim(asked.arguments, asked.operation_id, {**asked.members, "token": secrets.token_hex(16)})
        try:
            reply = yield from deliver(request)
        except GatewayUnreachable as error:
            why = f"{error.why}; the function did not run"
            raise GatewayUnreachable(why, error.may_have_been_sent, error.operation_id) from None
        except BaseException:
            yield from _give_back_if_granted(request, asked, asked_at)
            raise
        if reply.status == 201:
            return _grant(reply, asked, asked_at)
        envelope = read_envelope(reply)
        if envelope.is_success:
            return envelope
        left = until - now_ms()
        if envelope.outcome != "in_progress" or left <= 0:
            raise of_envelope(envelope)
        read_status((yield from deliver(wire.status(asked.operation_id, int(left) + 1))))


def settle(grant: Grant, end: End) -> Flow[tuple[End, Envelope | None]]:
    """How the operation stands once the ledger knows the end, and the end as it was recorded: without its value where
    that was too large.

    Raises `SettlementNotRecorded`; but whoever wants to stop is not kept by it, and gets `None`.
    """
    persistence = SETTLEMENT if end.stopped is None else PARTING
    try:
        reply = yield from deliver(grant.settlement(end), persistence)
        if reply.code == "too_large" and end.body is not None:
            end = end.without_value("the gateway takes no body of that size")
            reply = yield from deliver(grant.settlement(end), persistence)
        return end, read_envelope(reply)
    except GeneratorExit:
        raise
    except (GatewayUnreachable, Refused) as error:
        if end.stopped is not None:
            return end, None
        attempt = grant.attempt
        lost = SettlementNotRecorded(attempt.operation_id, attempt.settle_by, end.ended, _why(error), end.value)
        raise lost from (end.raised or error)
    except BaseException:
        # Whoever interrupts here wants to stop, and what has happened must be known all the same: once more.
        with suppress(GatewayUnreachable, Refused):
            yield from deliver(grant.settlement(end), PARTING)
        raise


def give_back(grant: Grant) -> Flow[None]:
    """Says that a granted claim was not run: otherwise its operation would become unknown."""
    try:
        yield from deliver(grant.settlement(End("nothing_sent")), PARTING)
    except GatewayUnreachable:
        pass  # then it becomes unknown by itself


def _why(error: GatewayUnreachable | Refused) -> str:
    return error.why if isinstance(error, GatewayUnreachable) else f"{error.code}: {error.detail.rstrip('.')}"


def _grant(reply: Reply, asked: Asked, asked_at_ms: float) -> Grant:
    body = reply.body
    # What answers 201 and is no grant of this claim runs nothing. Only an observing gateway goes on under a spare id.
    named = body.get("operation_id")
    mine = named == asked.operation_id or str(named).startswith("observed-")
    if not (mine and isinstance(body.get("attempt"), int) and isinstance(body.get("secret"), str)):
        raise GatewayUnreachable(
            "what answered 201 is no grant of this claim; the function did not run", True, asked.operation_id
        )
    attempt = Attempt(
        operation_id=body["operation_id"],
        attempt=body["attempt"],
        outbound_key=body.get("outbound_key") or "",
        send_before=body.get("send_before") or "",
        settle_by=body.get("settle_by") or "",
    )
    return Grant(attempt, body["secret"], asked.settle_within_ms, asked_at_ms)


def _give_back_if_granted(request: Request, asked: Asked, asked_at_ms: float) -> Flow[None]:
    """Whoever asked wants to stop and does not know whether the claim was granted. Asks once more."""
    try:
        reply = yield from deliver(request, PARTING)
        if reply.status == 201:
            yield from give_back(_grant(reply, asked, asked_at_ms))
    except GatewayUnreachable:
        pass  # or what answered was no gateway; either way nothing runs, and what wanted to stop stops
