"""Agent frameworks: thin adapters, one module for each, which imports its framework.

Each does two things. It puts the operation id that the application minted and stored on every call of a tool, and it
says what is no receipt in the framework's own way, so that the framework never takes it for a call that is worth
another try. docs/identity.md has the rules and a row for each framework.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..errors import GatewayUnreachable, NotDispatched, OperationInProgress, Refused

META = "dev.onceward/operation-id"
"""The member of `_meta` in which MCP carries an operation id."""


class Ids(Protocol):
    """Where operation ids are minted and kept: `OperationIds`, `KeptIds`, or the application's own."""

    def of(self, tool: str, arguments: dict[str, Any], /) -> str:
        """The id of this call in this run: stored before it is returned, and the same ever after."""
        ...


def is_worth_repeating(error: BaseException) -> bool:
    """Whether the same call **with the same operation id** may be made again by a framework's retry.

    Never for `OperationUnknown`: there is nothing that another try could bring, and a model that is asked to try again
    changes its words.
    """
    if isinstance(error, Refused):
        return error.repeat == "same_identity"
    return isinstance(error, (GatewayUnreachable, OperationInProgress, NotDispatched))
