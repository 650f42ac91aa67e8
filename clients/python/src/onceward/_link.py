"""The one place that sends: a request goes over httpx once, and a flow is carried out step by step.

The transport is used directly and not through `httpx.Client`, which costs as much again. It follows no redirect and
asks no environment for a proxy; whoever needs one gives a transport that has it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

import httpx

from . import _limits as limits
from ._delivery import Flow, Pause, Send
from ._plain import Header, PlainTransport, head_of
from ._version import VERSION
from ._wire import Delivered, NoReply, Request, read_reply

T = TypeVar("T")

URL_DEFAULT = "http://127.0.0.1:7070"

# After these surely no byte was sent.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class Place:
    """Where the gateway is and as whom it is asked: a request as httpx takes it."""

    def __init__(self, url: str | None, token: str | None) -> None:
        self.url = (url or os.environ.get("ONCEWARD_URL") or URL_DEFAULT).rstrip("/")
        parsed = httpx.URL(self.url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{self.url!r} is no address of a gateway; it is http://… or https://…")
        token = (token or os.environ.get("ONCEWARD_TOKEN") or "").strip()
        if not token.isascii() or any(character.isspace() for character in token):
            raise ValueError("a token is one word of ASCII characters; this one has others in it")
        self._headers = [
            (b"Host", parsed.netloc),
            (b"User-Agent", f"onceward-python/{VERSION}".encode()),
            (b"Accept", b"application/json"),
        ]
        if token:
            self._headers.append((b"Authorization", b"Bearer " + token.encode()))
        self.address = (parsed.host, parsed.port or 80)
        self._below = parsed.raw_path.rstrip(b"/")
        # Paths with an operation id in them come once; the others always.
        self._at = lru_cache(maxsize=64)(lambda path: httpx.URL(self.url + path))

    def headers(self, request: Request) -> list[Header]:
        headers = list(self._headers)
        if request.body is not None:
            headers += [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(request.body))]
        if request.wait_s is not None:
            headers.append((b"Prefer", b"wait=%d" % request.wait_s))
        if request.scope is not None:
            headers.append((b"Onceward-Scope", request.scope.encode()))
        return headers

    def request(self, request: Request) -> httpx.Request:
        timeout = {
            "connect": connect_within_s(request),
            "read": request.answer_within_s,
            "write": limits.ANSWER_WITHIN_S,
            "pool": limits.ANSWER_WITHIN_S,
        }
        stream = httpx.ByteStream(request.body or b"")
        at, headers = self._at(request.path), self.headers(request)
        return httpx.Request(request.method, at, headers=headers, stream=stream, extensions={"timeout": timeout})

    def head(self, request: Request) -> bytes:
        """The same without httpx: what of it goes out before the body."""
        return head_of(request.method, self._below + request.path.encode("ascii"), self.headers(request))


def connect_within_s(request: Request) -> float:
    return min(limits.CONNECT_WITHIN_S, request.answer_within_s)


def _no_reply(error: Exception) -> NoReply:
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return NoReply(why, may_have_been_sent=not isinstance(error, _NOT_SENT))


_POOL = httpx.Limits(
    max_connections=limits.CONNECTIONS_MAX,
    max_keepalive_connections=limits.CONNECTIONS_MAX,
    keepalive_expiry=limits.KEPT_ALIVE_S,
)


class Link:
    """Sends and waits. Any number of threads may use one."""

    def __init__(self, place: Place, transport: httpx.BaseTransport | None) -> None:
        self.place = place
        self._is_ours = transport is None
        self.transport = transport or self._own()

    def _own(self) -> httpx.BaseTransport:
        if self.place.url.startswith("https:"):
            return httpx.HTTPTransport(limits=_POOL)
        return PlainTransport(limits.CONNECTIONS_MAX, limits.KEPT_ALIVE_S)

    def send(self, request: Request) -> Delivered:
        try:
            if isinstance(self.transport, PlainTransport):
                return self._send_plainly(self.transport, request)
            response = self.transport.handle_request(self.place.request(request))
            try:
                content = response.read()
            finally:
                response.close()
        except (httpx.TransportError, OSError) as error:
            return _no_reply(error)
        return read_reply(response.status_code, response.headers, content)

    def _send_plainly(self, transport: PlainTransport, request: Request) -> Delivered:
        place = self.place
        status, headers, content = transport.exchange(
            place.address, place.head(request), request.body or b"", connect_within_s(request), request.answer_within_s
        )
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        return read_reply(status, names, content)

    def carry_out(self, flow: Flow[T]) -> T:
        """Carries a flow out to its result. What interrupts it is raised inside it, so that it can say what must still
        be said.
        """
        given: Any = None
        raised: BaseException | None = None
        while True:
            try:
                step = flow.send(given) if raised is None else flow.throw(raised)
            except StopIteration as done:
                result: T = done.value
                return result
            given = raised = None
            try:
                match step:
                    case Send(request):
                        given = self.send(request)
                    case Pause(ms):
                        time.sleep(ms / 1000)
            except BaseException as error:
                raised = error

    def after_fork(self) -> None:
        """In a child process: connections are the parent's, and two on one would read each other's answers."""
        if self._is_ours:
            self.transport = self._own()

    def close(self) -> None:
        self.transport.close()


class AsyncLink:
    """Sends and awaits, in one event loop of asyncio."""

    def __init__(self, place: Place, transport: httpx.AsyncBaseTransport | None) -> None:
        self.place = place
        self._is_ours = transport is None
        self.transport = transport or httpx.AsyncHTTPTransport(limits=_POOL)
        self._apart: set[asyncio.Task[Any]] = set()

    async def send(self, request: Request) -> Delivered:
        try:
            response = await self.transport.handle_async_request(self.place.request(request))
            try:
                content = await response.aread()
            finally:
                await response.aclose()
        except (httpx.TransportError, OSError) as error:
            return _no_reply(error)
        return read_reply(response.status_code, response.headers, content)

    async def carry_out(self, flow: Flow[T]) -> T:
        """As `Link.carry_out`."""
        given: Any = None
        raised: BaseException | None = None
        while True:
            try:
                step = flow.send(given) if raised is None else flow.throw(raised)
            except StopIteration as done:
                result: T = done.value
                return result
            given = raised = None
            try:
                match step:
                    case Send(request):
                        given = await self.send(request)
                    case Pause(ms):
                        await asyncio.sleep(ms / 1000)
            except BaseException as error:
                raised = error

    def start_apart(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that goes on when its caller is cancelled; `aclose` waits for it."""
        task = asyncio.ensure_future(work)
        self._apart.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._apart.discard(task)
        if not task.cancelled():
            task.exception()  # it was told to whoever still waited

    def after_fork(self) -> None:
        if self._is_ours:
            self.transport = httpx.AsyncHTTPTransport(limits=_POOL)

    async def aclose(self) -> None:
        await asyncio.gather(*self._apart, return_exceptions=True)
        await self.transport.aclose()
