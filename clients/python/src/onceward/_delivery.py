"""Handing a request over until it is answered: when the same bytes go out again, and when that is over.

This is no retry of the write, which is the gateway's alone. It is the same request once more, which the gateway
recognises.

What is to be done is yielded and not done here, so that the client that blocks and the one that awaits share every
rule: a flow yields `Send` or `Pause`, is given what came of it, and returns its result.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from . import _limits as limits
from ._clock import now_ms
from ._wire import Delivered, NoReply, Reply, Request
from .errors import GatewayUnreachable


@dataclass(frozen=True)
class Send:
    """Yielded: send it once. What comes back is `Delivered`."""

    request: Request


@dataclass(frozen=True)
class Pause:
    """Yielded: wait this long. Nothing comes back."""

    ms: float


T = TypeVar("T")
Flow = Generator[Send | Pause, Any, T]

# Codes after which the same request goes out again. Each says that nothing was sent, or that the same identity finds
# out.
_AGAIN = frozenset(
    {"overloaded", "ledger_busy", "ledger_unavailable", "commit_unknown", "shutting_down", "tools_not_known"}
)


@dataclass(frozen=True)
class Persistence:
    """How long a request is handed over again."""

    deliveries_max: int
    within_ms: float
    pause_max_ms: float
    codes: frozenset[str] = _AGAIN


CALL = Persistence(limits.DELIVERIES_MAX, within_ms=float("inf"), pause_max_ms=limits.PAUSE_MAX_MS)
"""For whoever waits for an answer."""

SETTLEMENT = Persistence(1_000, limits.SETTLE_FOR_MS, limits.RETRY_AFTER_MAX_MS, _AGAIN | {"timeout", "internal"})
"""For what has happened and must be known."""

PARTING = Persistence(limits.DELIVERIES_MAX, limits.GIVE_UP_WITHIN_MS, limits.PAUSE_MIN_MS)
"""For somebody who wants to stop."""


def deliver(request: Request, persistence: Persistence = CALL) -> Flow[Reply]:
    """The gateway's answer, whatever it says.

    A request that is not repeatable goes out again only if surely no byte of it was sent. Raises `GatewayUnreachable`
    where no answer came, and also where the last answer refuses but an earlier delivery was lost: what became of that
    one, the refusal does not say.
    """
    if request.answer_within_s * 1000 > persistence.within_ms:
        request = replace(request, answer_within_s=persistence.within_ms / 1000)
    began = now_ms()
    lost = False
    delivery = 0
    while True:
        delivered: Delivered = yield Send(request)
        delivery += 1
        if isinstance(delivered, Reply):
            again = delivered.code in persistence.codes and request.repeatable
            if not again:
                return delivered
        else:
            lost = lost or delivered.may_have_been_sent
            again = request.repeatable or not delivered.may_have_been_sent
        pause = _pause_ms(delivery, delivered, persistence)
        if not again or delivery >= persistence.deliveries_max or now_ms() - began + pause > persistence.within_ms:
            break
        yield Pause(pause)
    if isinstance(delivered, NoReply):
        raise GatewayUnreachable(delivered.why, lost, request.operation_id)
    if lost:
        raise GatewayUnreachable(f"then it answered {delivered.code}", lost, request.operation_id)
    return delivered


def _pause_ms(delivery: int, delivered: Delivered, persistence: Persistence) -> float:
    """By chance between the least and the most of this delivery, which doubles; or what the answer asks for, up to a
    bound.
    """
    most = min(persistence.pause_max_ms, limits.PAUSE_MAX_MS * 2 ** min(delivery - 1, 8))
    pause = random.uniform(limits.PAUSE_MIN_MS, max(limits.PAUSE_MIN_MS, most))
    asked = delivered.retry_after_ms if isinstance(delivered, Reply) else None
    return pause if asked is None else max(pause, min(asked, limits.RETRY_AFTER_MAX_MS))
