"""Requests and replies as values. Nothing here sends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any
from urllib.parse import quote

from . import _limits as limits
from .fingerprint import InvalidJson, canonical


@dataclass(frozen=True)
class Request:
    """What is sent, the same bytes at each delivery."""

    method: str
    path: str
    body: bytes | None = None
    operation_id: str | None = None
    repeatable: bool = True
    """Whether a second delivery is recognised: it names an operation, a claim's token or secret, or only reads."""
    wait_s: int | None = None
    """`Prefer: wait`; `None` leaves it to the gateway."""
    scope: str | None = None
    answer_within_s: float = limits.ANSWER_WITHIN_S


@dataclass(frozen=True)
class Reply:
    """What a gateway answered: a JSON object, always."""

    status: int
    body: Mapping[str, Any]
    retry_after_ms: int | None = None
    version: str | None = None

    @property
    def code(self) -> str | None:
        """The code of a refusal; `None` for an operation's own answer."""
        return None if "outcome" in self.body else self.body.get("code")


@dataclass(frozen=True)
class NoReply:
    """Nothing that a gateway would say came back."""

    why: str
    may_have_been_sent: bool


Delivered = Reply | NoReply


def read_reply(status: int, headers: Mapping[str, str], content: bytes) -> Delivered:
    """A gateway's answer; or, where a proxy or something else answered in its place, as much as no answer."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not (status < 300 or "outcome" in body or "code" in body or "ready" in body):
        return NoReply(f"what answered with HTTP {status} is no gateway of Onceward", may_have_been_sent=True)
    after = headers.get("retry-after", "")
    return Reply(
        status,
        body,
        int(after) * 1000 if after.isascii() and after.isdigit() else None,
        headers.get("onceward-version"),
    )


# What a caller gives, checked before anything is sent.


def operation_id(text: object) -> str:
    """The text, if it is an operation id. Raises `TypeError`, `ValueError`."""
    if not isinstance(text, str):
        raise TypeError(f"an operation id is a text, and this is a {type(text).__name__}; pass str(…) of it")
    if not 1 <= len(text) <= limits.OPERATION_ID_BYTES_MAX or not all("!" <= character <= "~" for character in text):
        raise ValueError(
            f"an operation id is 1 to {limits.OPERATION_ID_BYTES_MAX} visible ASCII characters; nothing is cut to fit"
        )
    return text


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call as strict JSON. Raises `InvalidJson`: nothing was sent."""
    if not isinstance(arguments, dict):
        raise InvalidJson("not_an_object", "", "the arguments of a tool are a dict; pass {} for none")
    return canonical(arguments)


def milliseconds(name: str, value: int, *, least: int = 0, most: int | None = None) -> int:
    """The value, if it is a time that is allowed. Raises `TypeError`, `ValueError`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number of milliseconds")
    if value < least or (most is not None and value > most):
        raise ValueError(
            f"{name} is at least {least}"
            + (f" and at most {most}" if most is not None else "")
            + f" ms, and this is {value}"
        )
    return value


# The requests.


def call(
    tool: str, arguments: Mapping[str, Any], operation: str | None, scope: str | None, wait_ms: int | None
) -> Request:
    """Raises `InvalidJson`, `TypeError` and `ValueError` for what no gateway would take."""
    identity = "" if operation is None else f',"operation_id":{json.dumps(operation_id(operation))}'
    wait_s = None if wait_ms is None else _seconds(milliseconds("wait_ms", wait_ms))
    return Request(
        "POST",
        f"/v1/tools/{_step(tool)}/calls",
        f'{{"arguments":{arguments_text(arguments)}{identity}}}'.encode(),
        operation_id=operation,
        repeatable=operation is not None,
        wait_s=wait_s,
        scope=None if scope is None else operation_id(scope),
        answer_within_s=limits.ANSWER_WITHIN_S + (limits.WAIT_DEFAULT_S if wait_s is None else wait_s),
    )


def claim(arguments: str, operation: str, members: Mapping[str, Any]) -> Request:
    """`arguments` are canonical text already; `members` the others: tool, token, settle_within_ms, title, lookup."""
    rest = _json({"operation_id": operation, "begin": True, **members})
    body = b'{"arguments":' + arguments.encode() + b"," + rest[1:]
    return Request("POST", "/v1/claims", body, operation_id=operation)


def heartbeat(operation: str, attempt: int, secret: str, settle_within_ms: int) -> Request:
    body = _json({"attempt": attempt, "secret": secret, "settle_within_ms": settle_within_ms})
    within = max(1.0, min(limits.ANSWER_WITHIN_S, settle_within_ms / 3000))
    return Request(
        "POST", f"/v1/claims/{_step(operation)}/heartbeat", body, operation_id=operation, answer_within_s=within
    )


def settlement(
    operation: str, attempt: int, secret: str, ended: str, effect_id: str | None, receipt_body: bytes | None
) -> Request:
    """`receipt_body` is JSON already, and is stored as it is written."""
    members: dict[str, Any] = {"attempt": attempt, "secret": secret, "ended": ended}
    if effect_id is not None:
        members["effect_id"] = effect_id
    body = _json(members)
    if receipt_body is not None:
        body = body[:-1] + b',"receipt":{"body":' + receipt_body + b"}}"
    return Request(
        "POST", f"/v1/claims/{_step(operation)}/settlement", body, operation_id=operation, answer_within_s=10.0
    )


def status(operation: str, wait_ms: int) -> Request:
    """Raises `TypeError` and `ValueError` for what no gateway would take."""
    operation = operation_id(operation)
    wait_s = _seconds(min(milliseconds("wait_ms", wait_ms), limits.WAIT_MAX_MS)) or None
    within = limits.ANSWER_WITHIN_S + (wait_s or 0)
    return Request(
        "GET", f"/v1/operations/{_step(operation)}", operation_id=operation, wait_s=wait_s, answer_within_s=within
    )


def due_lookups(tools: Iterable[str], limit: int) -> Request:
    """Of these tools only: what other applications may look for would fill the list."""
    names = ",".join(quote(tool, safe="") for tool in tools)
    return Request("GET", f"/v1/lookups/due?limit={min(limit, limits.LOOKUPS_MAX)}&tool={names}")


def lookup_report(operation: str, report: Mapping[str, Any]) -> Request:
    """Not repeatable: an absence that is reported twice would count twice. A lost one is due again."""
    return Request(
        "POST", f"/v1/operations/{_step(operation)}/lookups", _json(report), operation_id=operation, repeatable=False
    )


def healthz() -> Request:
    return Request("GET", "/healthz")


def readyz() -> Request:
    return Request("GET", "/readyz")


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _seconds(ms: int) -> int:
    """Whole seconds, rounded up: who waits a little longer misses nothing."""
    return ceil(ms / 1000)


def _step(text: str) -> str:
    """One step of a path, whatever is in the text: `/` and, where it would be a step of its own meaning, `.` too."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted
