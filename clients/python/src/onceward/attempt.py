"""What an own function sees of the attempt that it is, and what it may say about its end."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """One run of an own function."""

    operation_id: str
    attempt: int
    """From 1. An operation has a second one only after the first was proved to have had no effect."""
    outbound_key: str
    """Give it to what the function calls, as its idempotency key or in a field that can be searched: a lookup finds the
    effect by it.
    """
    send_before: str
    """Nothing may begin after this (RFC 3339)."""
    settle_by: str
    """When the claim runs out, unless a heartbeat extends it, which happens by itself (RFC 3339)."""


RUNNING: ContextVar[Attempt] = ContextVar("onceward_attempt")


def current_attempt() -> Attempt:
    """The attempt that the calling function is. Raises `LookupError` outside of an own function."""
    try:
        return RUNNING.get()
    except LookupError:
        raise LookupError(
            "no own function is running here; current_attempt() belongs into a function under @client.operation(…)"
        ) from None


class NotSent(Exception):
    """Raised by an own function that surely had no effect, such as one whose connection was refused. The caller gets
    `NotDispatched`, and the operation may be run again under the same id. Never raise it where the effect may exist.
    """


class Rejected(Exception):
    """Raised by an own function that was refused, with nothing having happened. That is final: the caller and every
    repetition get `OperationRejected` with `body`, which is JSON, in its receipt.
    """

    def __init__(self, body: Any = None) -> None:
        super().__init__(body)
        self.body = body
