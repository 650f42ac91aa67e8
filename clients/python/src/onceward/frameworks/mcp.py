"""Plain MCP, with the official client 1.x or 2.x: an operation id on a call, and an exception where there is no
receipt.

    result = await call_tool(session, "create_ticket", arguments, operation=stored_id)

Nothing of `mcp` is imported: sessions and results of both versions are used as they are.
"""

from __future__ import annotations

from typing import Any

from ..envelope import Envelope
from ..errors import OncewardError, Refused, of_envelope
from . import META


async def call_tool(session: Any, tool: str, arguments: dict[str, Any], *, operation: str, **options: Any) -> Any:
    """Calls a tool of the gateway under an operation id and gives its result: the first call's, however often it is
    made. `session` is a `ClientSession` (1.x, 2.x) or a `Client` (2.x); `options` are those of its `call_tool`.

    Raises what `client.call` raises for the same outcome. What the client raises of its own (a lost connection, a wait
    that ended) says nothing of the effect: make the same call with the same id again.
    """
    return checked(await session.call_tool(tool, arguments, meta={META: operation}, **options))


def checked(result: Any) -> Any:
    """The result, unless it is the gateway's envelope in the place of one: then the error that it is."""
    if error := error_of(result):
        raise error
    return result


def error_of(result: Any) -> OncewardError | None:
    """The error that a result of the gateway says, if it says one. A tool's own error is the tool's result."""
    shown = result.model_dump(mode="json", by_alias=True)
    if not shown.get("isError"):
        return None
    envelope = shown.get("structuredContent")
    return error_in(envelope) if isinstance(envelope, dict) else None


def error_in(envelope: dict[str, Any]) -> OncewardError | None:
    """The error that an envelope is; `None` for what only looks like one."""
    if isinstance(envelope.get("outcome"), str) and "dispatched" in envelope:
        return of_envelope(Envelope.read(envelope))
    if isinstance(envelope.get("code"), str) and envelope.get("source") == "gateway":
        return Refused(envelope["code"], int(envelope.get("status", 400)), str(envelope.get("message", "")))
    return None
