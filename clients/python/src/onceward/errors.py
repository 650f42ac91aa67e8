"""Every way in which a call has no receipt. All of them are `OncewardError`.

A message says what happened, what did not, and what to do next. Each error can be pickled, so that a worker may pass it
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .envelope import Envelope, Told


class OncewardError(Exception):
    """Whatever this client raises of its own."""


class OperationError(Told, OncewardError):
    """The operation answered, and not with a receipt. An outcome that this version does not know is of this class."""

    def __init__(self, envelope: Envelope) -> None:
        super().__init__(envelope)
        self.envelope = envelope

    def __str__(self) -> str:
        name = self.envelope.operation_id
        return f"{self.outcome}{f' ({name})' if name else ''}: {self.envelope.message}"


class OperationUnknown(OperationError):
    """It may have been done, and nobody runs it again before evidence or a person settles it.

    Tell nobody that it succeeded or failed. Neither a new operation id nor changed arguments is the way: they would
    make a second effect. The same call with the same id may be made at any time.
    """


class OperationInProgress(OperationError):
    """An attempt is running, and the wait for it ended first. Make the same call again with the same id, or ask for its
    status.
    """


class OperationConflict(OperationError):
    """The operation id belongs to another intention: another tool, or other arguments. Nothing was sent."""

    @property
    def differences(self) -> tuple[Mapping[str, Any], ...]:
        """The fields that differ: where, and whether `added`, `removed` or `changed`; never values."""
        return self.envelope.differences

    def __str__(self) -> str:
        fields = ", ".join(f"{one.get('at', one.get('inside'))} ({one.get('kind')})" for one in self.differences)
        return super().__str__() + (f" They differ in: {fields}." if fields else "")


class OperationRejected(OperationError):
    """It was refused and nothing happened; the refusal is in `receipt`. A corrected one is a new operation with a new
    id.
    """


class OperationClosed(OperationError):
    """It will not be done. The message says why, and whether an earlier attempt may have had its effect."""


class ApprovalRequired(OperationError):
    """A person must approve it first. Nothing was sent. Make the same call again afterwards, with the same id."""


class PossibleDuplicate(OperationError):
    """It looks like a repetition of an earlier call, and neither of the two has an operation id. Nothing was sent."""


class NotDispatched(OperationError):
    """Surely nothing was done. Make the same call again with the same id."""


class OperationExpired(OperationError):
    """It was settled, and its answer has been erased. The id stays taken; nothing was sent."""


OF_OUTCOME: Mapping[str, type[OperationError]] = {
    "unknown": OperationUnknown,
    "in_progress": OperationInProgress,
    "conflict": OperationConflict,
    "rejected": OperationRejected,
    "closed": OperationClosed,
    "approval_required": ApprovalRequired,
    "possible_duplicate": PossibleDuplicate,
    "not_dispatched": NotDispatched,
    "expired": OperationExpired,
}


def of_envelope(envelope: Envelope) -> OperationError:
    """The error that this outcome is."""
    return OF_OUTCOME.get(envelope.outcome, OperationError)(envelope)


# The column "the same call again" of docs/http.md.
SAME_IDENTITY = frozenset(
    {
        "claim_lost",
        "overloaded",
        "ledger_busy",
        "ledger_unavailable",
        "commit_unknown",
        "timeout",
        "shutting_down",
        "internal",
        "read_failed",
        "tools_not_known",
    }
)
NEVER = frozenset(
    {
        "invalid_json",
        "too_large",
        "invalid_arguments",
        "invalid_request",
        "unknown_tool",
        "identity_required",
        "identity_conflict",
        "unauthenticated",
        "denied",
        "not_found",
        "illegal_move",
        "approval_void",
        "ledger_corrupt",
        "earlier_unresolved",
        "moved",
    }
)


class Refused(OncewardError):
    """No operation answered the call: the gateway refused it with a code (docs/http.md). Codes that this version does
    not know, too.
    """

    def __init__(self, code: str, status: int, detail: str) -> None:
        super().__init__(code, status, detail)
        self.code = code
        self.status = status
        self.detail = detail

    @property
    def repeat(self) -> str:
        """`same_identity`: the same call with the same operation id is worth making again, and no other. `never`: it
        will be refused again.
        """
        if self.code in SAME_IDENTITY:
            return "same_identity"
        if self.code in NEVER:
            return "never"
        return "same_identity" if self.status >= 500 or self.status == 429 else "never"

    def __str__(self) -> str:
        again = {
            "same_identity": "The same call with the same operation id may be made again; no other.",
            "never": "The same call will be refused again.",
        }
        return f"{self.code} (HTTP {self.status}): {self.detail.rstrip('.')}. {again[self.repeat]}"


class GatewayUnreachable(OncewardError):
    """No answer of the gateway arrived. Where `may_have_been_sent`, the request may have reached it and been carried
    out.
    """

    def __init__(self, why: str, may_have_been_sent: bool, operation_id: str | None = None) -> None:
        super().__init__(why, may_have_been_sent, operation_id)
        self.why = why
        self.may_have_been_sent = may_have_been_sent
        self.operation_id = operation_id

    def __str__(self) -> str:
        if not self.may_have_been_sent:
            return (
                f"the gateway could not be reached ({self.why}). Surely nothing was sent. Make the same call again "
                "with the same operation id."
            )
        if self.operation_id is None:
            return (
                f"the gateway's reply did not arrive ({self.why}). What was asked of it may have been carried out, and "
                "without an operation id a repetition cannot be recognised for sure: look before it is made again. "
                "Give calls an operation id."
            )
        return (
            f"the gateway's reply did not arrive ({self.why}). What was asked of it may have been carried out. Make "
            f"the same call again with the same operation id ({self.operation_id}): it finds what became of it. "
            "Another id would be another intention."
        )


class SettlementNotRecorded(OncewardError):
    """An own function ended, and the ledger does not know it yet. `value` is what it returned, where it returned.

    At `settle_by` the operation becomes unknown, which is the truth as far as the ledger goes. A lookup or a person
    settles it. Do not run the function again.
    """

    def __init__(self, operation_id: str, settle_by: str, ended: str, why: str, value: Any = None) -> None:
        super().__init__(operation_id, settle_by, ended, why, value)
        self.operation_id = operation_id
        self.settle_by = settle_by
        self.ended = ended
        self.why = why
        self.value = value

    def __str__(self) -> str:
        happened = {
            "done": "It was done",
            "refused": "It was refused and nothing happened",
            "nothing_sent": "Surely nothing was sent",
        }.get(self.ended, "The function failed, and nobody knows how far it came")
        return (
            f"{happened}, but the ledger does not know it yet ({self.why}). Operation {self.operation_id} becomes "
            f"unknown at {self.settle_by}; a lookup or a person settles it then. Do not run it again."
        )


class ReceiptNotKept(OncewardError):
    """An own function had its effect, and what it returned could not be stored. The operation is settled as done,
    without a value.

    `value` is what it returned: only this caller has it. A repetition gets `None` in its place.
    """

    def __init__(self, operation_id: str, why: str, value: Any = None) -> None:
        super().__init__(operation_id, why, value)
        self.operation_id = operation_id
        self.why = why
        self.value = value

    def __str__(self) -> str:
        return (
            f"It was done, and operation {self.operation_id} is settled, but what the function returned could not be "
            f"stored ({self.why}). Take it from `.value` now; do not run it again. Give the operation an `encode` that "
            "makes it small JSON. A repetition gets `None`."
        )
