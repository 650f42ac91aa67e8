"""Onceward: one identity for every write of an agent, and the first attempt's receipt for every repetition of it."""

from ._version import VERSION as __version__
from .aio import AsyncOnceward
from .answer import Answer, Gateway, Status
from .attempt import Attempt, NotSent, Rejected, current_attempt
from .client import Onceward
from .envelope import Envelope, Receipt
from .errors import (
    ApprovalRequired,
    GatewayUnreachable,
    NotDispatched,
    OncewardError,
    OperationClosed,
    OperationConflict,
    OperationError,
    OperationExpired,
    OperationInProgress,
    OperationRejected,
    OperationUnknown,
    PossibleDuplicate,
    ReceiptNotKept,
    Refused,
    SettlementNotRecorded,
)
from .fingerprint import InvalidJson, canonical, fingerprint
from .ids import OperationIds, new_operation_id
from .lookups import ABSENT, Absent, Cut, Due, Found

__all__ = [
    "ABSENT",
    "Absent",
    "Answer",
    "ApprovalRequired",
    "AsyncOnceward",
    "Attempt",
    "Cut",
    "Due",
    "Envelope",
    "Found",
    "Gateway",
    "GatewayUnreachable",
    "InvalidJson",
    "NotDispatched",
    "NotSent",
    "Onceward",
    "OncewardError",
    "OperationClosed",
    "OperationConflict",
    "OperationError",
    "OperationExpired",
    "OperationIds",
    "OperationInProgress",
    "OperationRejected",
    "OperationUnknown",
    "PossibleDuplicate",
    "Receipt",
    "ReceiptNotKept",
    "Refused",
    "Rejected",
    "SettlementNotRecorded",
    "Status",
    "__version__",
    "canonical",
    "current_attempt",
    "fingerprint",
    "new_operation_id",
]
