"""What the gateway tells about an operation: the same facts on every surface (docs/outcomes.md)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SUCCESSES = frozenset({"executed", "replayed", "recovered"})
"""The outcomes that carry a receipt: it was done."""


@dataclass(frozen=True)
class Receipt:
    """The stored answer of whoever did it: what was done then, not how the thing looks now. One of the three bodies is
    there, as sent.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    body_text: str | None = None
    body_base64: str | None = None

    @property
    def content(self) -> Any:
        """The body as a value: JSON, else text, else bytes, else `None`."""
        if self.body_text is not None:
            return self.body_text
        if self.body_base64 is not None:
            return base64.b64decode(self.body_base64)
        return self.body

    @classmethod
    def read(cls, sent: Mapping[str, Any]) -> Receipt:
        return cls(
            status=sent.get("status", 200),
            headers=sent.get("headers") or {},
            body=sent.get("body"),
            body_text=sent.get("body_text"),
            body_base64=sent.get("body_base64"),
        )


@dataclass(frozen=True)
class Envelope:
    """How a call ended and how its operation stands. Times are RFC 3339 texts; what the answer leaves out is `None`."""

    outcome: str
    operation_id: str | None
    state: str | None
    """`None` where the operation id belongs to another tool, of which nothing is told."""
    attempts: int
    dispatched: str
    """`no`, `yes` or `maybe`: about the operation, whoever called."""
    source: str | None
    replayed: bool
    first_seen_at: str | None
    as_of: str | None
    next_action: str | None
    check_after: str | None
    """When the next check is scheduled, where one is."""
    settles_by: str | None
    """`automatic` or `person`, where it is not settled."""
    message: str
    differences: tuple[Mapping[str, Any], ...]
    """For a conflict the fields that differ: names and kinds, never values."""
    disagreement: str | None
    receipt: Receipt | None
    raw: Mapping[str, Any] = field(repr=False)
    """The answer as it came, with members that this version does not know."""

    @property
    def is_success(self) -> bool:
        return self.outcome in SUCCESSES

    @classmethod
    def read(cls, raw: Mapping[str, Any], receipt: Mapping[str, Any] | None = None) -> Envelope:
        """From the members of an answer; `receipt` where it stands beside them and not in them."""
        sent = raw.get("receipt") if receipt is None else receipt
        return cls(
            outcome=str(raw["outcome"]),
            operation_id=raw.get("operation_id"),
            state=raw.get("state"),
            attempts=raw.get("attempts", 0),
            dispatched=raw.get("dispatched", "maybe"),
            source=raw.get("source"),
            replayed=raw.get("replayed", False),
            first_seen_at=raw.get("first_seen_at"),
            as_of=raw.get("as_of"),
            next_action=raw.get("next_action"),
            check_after=raw.get("check_after"),
            settles_by=raw.get("settles_by"),
            message=raw.get("message") or raw.get("detail") or "",
            differences=tuple(raw.get("differences") or ()),
            disagreement=raw.get("disagreement"),
            receipt=None if sent is None else Receipt.read(sent),
            raw=raw,
        )


class Told:
    """What carries an envelope says the same of the operation as that does."""

    envelope: Envelope

    @property
    def outcome(self) -> str:
        return self.envelope.outcome

    @property
    def operation_id(self) -> str | None:
        return self.envelope.operation_id

    @property
    def state(self) -> str | None:
        return self.envelope.state

    @property
    def attempts(self) -> int:
        return self.envelope.attempts

    @property
    def dispatched(self) -> str:
        return self.envelope.dispatched

    @property
    def replayed(self) -> bool:
        return self.envelope.replayed

    @property
    def next_action(self) -> str | None:
        return self.envelope.next_action

    @property
    def check_after(self) -> str | None:
        return self.envelope.check_after

    @property
    def settles_by(self) -> str | None:
        return self.envelope.settles_by

    @property
    def message(self) -> str:
        return self.envelope.message

    @property
    def disagreement(self) -> str | None:
        return self.envelope.disagreement

    @property
    def receipt(self) -> Receipt | None:
        return self.envelope.receipt
