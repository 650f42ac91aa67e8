"""How a run of an own function ended: what is settled, and what its caller is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _limits as limits
from .attempt import NotSent, Rejected
from .envelope import Envelope
from .errors import ReceiptNotKept, of_envelope

LOG = logging.getLogger("onceward")


@dataclass(frozen=True)
class End:
    """What the settlement says, and what it cannot say."""

    ended: str
    """`done`, `refused`, `nothing_sent` or `failed`."""
    effect_id: str | None = None
    body: bytes | None = None
    """The receipt's body, as JSON."""
    value: Any = None
    """What the function returned."""
    not_kept: str | None = None
    """Why the value is not in the receipt."""
    raised: BaseException | None = None

    @property
    def stopped(self) -> BaseException | None:
        """What was raised because somebody wants to stop (Ctrl-C, a cancelled task), and not only this function."""
        return None if isinstance(self.raised, Exception) else self.raised

    def without_value(self, why: str) -> End:
        return End(self.ended, self.effect_id, None, self.value, why, self.raised)


def of_value(value: Any, encode: Callable[[Any], Any] | None, effect_id: Callable[[Any], Any] | None) -> End:
    """The function returned: the effect has happened, and nothing that goes wrong from here on makes that undone."""
    name = _effect_id(value, effect_id)
    try:
        body = _json(value if encode is None else encode(value))
    except Exception as error:
        return End("done", name, None, value, f"{type(error).__name__}: {error}")
    if len(body) > limits.VALUE_BYTES_MAX:
        return End("done", name, None, value, f"{len(body)} bytes are more than the {limits.VALUE_BYTES_MAX} allowed")
    return End("done", name, body, value)


def of_error(error: BaseException, not_sent: tuple[type[BaseException], ...]) -> End:
    """The function raised. Whatever is not known to come before every effect may come after it."""
    if isinstance(error, (NotSent, *not_sent)):
        return End("nothing_sent", raised=error)
    if isinstance(error, Rejected):
        try:
            return End("refused", body=_json(error.body), raised=error)
        except Exception as unwritable:
            return End("refused", body=_json({"refusal": str(error.body)}), not_kept=str(unwritable), raised=error)
    return End("failed", raised=error)


def conclude(end: End, envelope: Envelope | None) -> Any:
    """The receipt's content for the caller, or what it is told in its place.

    The settlement's answer decides: one that came late may have found the operation settled otherwise, by a lookup or a
    person.
    """
    if end.stopped is not None:
        raise end.stopped
    assert envelope is not None, "only an end that was stopped goes without an answer"
    if not envelope.is_success:
        raise of_envelope(envelope) from end.raised
    if end.ended == "done" and end.not_kept is not None:
        raise ReceiptNotKept(envelope.operation_id or "", end.not_kept, end.value)
    return content(envelope)


def content(envelope: Envelope) -> Any:
    return None if envelope.receipt is None else envelope.receipt.content


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _effect_id(value: Any, effect_id: Callable[[Any], Any] | None) -> str | None:
    """The effect's own name, by which two receipts are compared. Without one nothing is lost but that comparison."""
    if effect_id is None:
        return None
    try:
        name = effect_id(value)
        str(name).encode()  # half of a surrogate pair is in no JSON that the gateway reads
    except Exception:
        LOG.warning("effect_id raised; the operation is settled without the effect's own name", exc_info=True)
        return None
    return None if name is None else str(name)
