"""Losing replies on purpose, for the tests of an application: the effect happens, and nobody hears of it."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Literal, TypeVar, cast

import httpx

from .aio import AsyncOnceward
from .client import Onceward

F = TypeVar("F", bound=Callable[..., Any])

_PATHS = {
    "call": re.compile(r"/v1/tools/[^/]+/calls"),
    "claim": re.compile(r"/v1/claims"),
    "heartbeat": re.compile(r"/v1/claims/[^/]+/heartbeat"),
    "settlement": re.compile(r"/v1/claims/[^/]+/settlement"),
}

Exchange = Literal["call", "claim", "heartbeat", "settlement"]


class Lost:
    """How many replies were lost so far."""

    def __init__(self, times: int) -> None:
        self._left = times
        self._lock = threading.Lock()
        self.count = 0

    def one(self) -> bool:
        """Whether this one is lost, too."""
        with self._lock:
            if self._left == 0:
                return False
            self._left -= 1
            self.count += 1
            return True


class _Losing(httpx.BaseTransport, httpx.AsyncBaseTransport):
    def __init__(self, inner: Any, path: re.Pattern[str], lost: Lost) -> None:
        self.inner = inner
        self._path = path
        self._lost = lost

    def _concerns(self, request: httpx.Request) -> bool:
        return self._path.fullmatch(request.url.raw_path.decode()) is not None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response: httpx.Response = self.inner.handle_request(request)
        if self._concerns(request) and self._lost.one():
            response.read()
            response.close()
            raise httpx.ReadError("the reply was lost")
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response: httpx.Response = await self.inner.handle_async_request(request)
        if self._concerns(request) and self._lost.one():
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("the reply was lost")
        return response


@contextmanager
def lose_reply(client: Onceward | AsyncOnceward, to: Exchange, times: int = 1) -> Iterator[Lost]:
    """Within it, the gateway's next `times` replies to such requests are lost: they reach it, and the client sees its
    connection break.
    """
    lost = Lost(times)
    link = cast(Any, client)._link
    losing = _Losing(link.transport, _PATHS[to], lost)
    link.transport = losing
    try:
        yield lost
    finally:
        link.transport = losing.inner


def losing_reply(function: F, times: int = 1) -> F:
    """The function, which has its effect, and whose first `times` callers get a `ConnectionError` in the place of what
    it returns.
    """
    lost = Lost(times)

    def or_lost(value: Any) -> Any:
        if lost.one():
            raise ConnectionError("the reply was lost")
        return value

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return or_lost(await function(*args, **kwargs))

        return cast(F, awaited)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return or_lost(function(*args, **kwargs))

    return cast(F, called)
