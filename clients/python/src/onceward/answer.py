"""Reading the gateway's answers: a receipt, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._wire import Reply
from .envelope import Envelope, Receipt, Told
from .errors import Refused, of_envelope


@dataclass(frozen=True)
class Answer:
    """It was done: by this call (`executed`), by an earlier one (`replayed`), or as it turned out (`recovered`). Or
    `read`: what a tool that only reads was told by its destination, whatever its status; then there is no operation.
    """

    outcome: str
    operation_id: str | None
    state: str | None
    attempts: int
    replayed: bool
    receipt: Receipt
    envelope: Mapping[str, Any] = field(repr=False)
    """The answer as it came."""

    @property
    def body(self) -> Any:
        """The receipt's JSON body; else its text, else its bytes."""
        return self.receipt.content

    @property
    def observed(self) -> Any:
        """What the gateway would have done, where it only observes; else `None`."""
        return self.envelope.get("observed")


@dataclass(frozen=True)
class Status(Told):
    """How an operation stands: what a repetition of its call would be told, and what a person needs to judge it."""

    envelope: Envelope
    operation: Mapping[str, Any]
    """The row as the gateway shows it: tool, arguments, uncertain attempts, times."""
    raw: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Gateway:
    """Which gateway answers, and whether it can do its work."""

    version: str | None
    """`None` for one that does not say."""
    ready: bool
    """Whether its ledger takes writes; nothing is dispatched while it does not."""
    ledger_id: str | None
    """Two gateways behind one address must show the same."""
    raw: Mapping[str, Any] = field(repr=False)


def read_call(reply: Reply) -> Answer:
    """The answer to a call of a tool.

    Raises `OperationError` for every outcome that is no success, and `Refused` for a code.
    """
    if reply.body.get("effect") == "read" and "outcome" not in reply.body:
        receipt = Receipt.read(reply.body.get("answer") or {})
        return Answer("read", None, None, 0, False, receipt, reply.body)
    envelope = read_envelope(reply)
    if not envelope.is_success:
        raise of_envelope(envelope)
    receipt = envelope.receipt or Receipt(status=200)
    return Answer(
        envelope.outcome,
        envelope.operation_id,
        envelope.state,
        envelope.attempts,
        envelope.replayed,
        receipt,
        reply.body,
    )


def read_envelope(reply: Reply) -> Envelope:
    """What an operation says, success or not. Raises `Refused` where none answered."""
    if "outcome" in reply.body:
        return Envelope.read(reply.body)
    raise refusal(reply)


def read_status(reply: Reply) -> Status:
    if "status" in reply.body and isinstance(reply.body["status"], dict):
        envelope = Envelope.read(reply.body["status"], reply.body.get("receipt"))
        return Status(envelope, reply.body.get("operation") or {}, reply.body)
    raise refusal(reply)


def read_gateway(live: Reply, ready: Reply) -> Gateway:
    version = live.body.get("version") or ready.body.get("version") or live.version
    ledger = ready.body.get("ledger") or {}
    return Gateway(
        version, bool(ready.body.get("ready")), ledger.get("id"), {"healthz": live.body, "readyz": ready.body}
    )


def refusal(reply: Reply) -> Refused:
    code = str(reply.body.get("code") or "unexpected_answer")
    detail = (
        reply.body.get("detail") or reply.body.get("title") or "an answer that this version of the client cannot read"
    )
    return Refused(code, reply.status, str(detail))
