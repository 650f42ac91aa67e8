"""The client that awaits, on asyncio. Every rule is that of the client that blocks; only who waits, and how, is said
here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, overload

import httpx

from . import _claims as claims
from . import _ends as ends
from . import _wire as wire
from . import answer, functions, lookups
from ._claims import Grant
from ._clock import now_ms
from ._delivery import Flow, deliver
from ._ends import End
from ._link import AsyncLink, Place
from .answer import Answer, Gateway, Status
from .attempt import RUNNING
from .client import _CLIENTS
from .envelope import Envelope
from .errors import GatewayUnreachable, Refused
from .functions import TOO_OLD, Described, Options, P, R
from .heartbeat import AsyncHeartbeats

LOG = logging.getLogger("onceward")


class AsyncOnceward:
    """A gateway, and what is called through it, in one event loop. See `Onceward`, whose every word holds here."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._link = AsyncLink(Place(url, token), transport)
        self._beats = AsyncHeartbeats(lambda request: self._link.send(request))
        self._own = functions.Registry()
        _CLIENTS.add(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._link.place.url!r})"

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        operation: str | None = None,
        scope: str | None = None,
        wait_ms: int | None = None,
    ) -> Answer:
        """As `Onceward.call`. A task that is cancelled meanwhile changes nothing: the work goes on, and the same call
        finds its result.
        """
        return answer.read_call(
            await self._link.carry_out(deliver(wire.call(tool, arguments, operation, scope, wait_ms)))
        )

    async def status(self, operation: str, *, wait_ms: int = 0) -> Status:
        """As `Onceward.status`."""
        return answer.read_status(await self._link.carry_out(deliver(wire.status(operation, wait_ms))))

    async def handshake(self) -> Gateway:
        """As `Onceward.handshake`."""
        live = await self._link.carry_out(deliver(wire.healthz()))
        return answer.read_gateway(live, await self._link.carry_out(deliver(wire.readyz())))

    def operation(
        self,
        tool: str,
        *,
        title: str | None = None,
        settle_within_ms: int = 60_000,
        wait_ms: int = 30_000,
        not_sent: tuple[type[BaseException], ...] = (),
        effect_id: Callable[[Any], Any] | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> Decorate:
        """As `Onceward.operation`, for async functions; a plain one runs in a worker thread."""
        options = Options(tool, title, settle_within_ms, wait_ms, tuple(not_sent), effect_id, encode, decode)

        def decorate(function: Callable[..., Any]) -> AsyncOwnFunction[Any, Any]:
            own: AsyncOwnFunction[Any, Any] = AsyncOwnFunction(function, options, self._link, self._beats)
            self._own.add(own)
            return own

        return decorate

    async def run_due_lookups(self, limit: int = 50) -> int:
        """As `Onceward.run_due_lookups`. A lookup that is a plain function runs in a worker thread."""
        mine = self._own.lookups()
        reply = await self._link.carry_out(deliver(wire.due_lookups(mine, limit)))
        recorded = 0
        for due, lookup in lookups.served(reply, mine, limit):
            recorded += await self._look(due, lookup)
        return recorded

    async def _look(self, due: lookups.Due, lookup: lookups.Lookup) -> bool:
        asked_ms = now_ms()
        try:
            request = lookups.report(due, await _ran(lookup.function, due), asked_ms, now_ms())
        except Exception:
            lookups.says_nothing(due)
            return False
        return lookups.was_recorded(due, await self._link.carry_out(deliver(request)))

    async def serve_lookups(self, stop: asyncio.Event | None = None, every_ms: int = 1000) -> None:
        """As `Onceward.serve_lookups`; a task that runs it can be cancelled as well."""
        stop = stop or asyncio.Event()
        while not stop.is_set():
            try:
                await self.run_due_lookups()
            except (GatewayUnreachable, Refused) as error:
                lookups.goes_on_after(error)
            try:
                await asyncio.wait_for(stop.wait(), every_ms / 1000)
            except asyncio.TimeoutError:
                pass

    async def aclose(self) -> None:
        """Waits for settlements that are still under way, and ends its connections."""
        await self._link.aclose()

    async def __aenter__(self) -> AsyncOnceward:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _after_fork(self) -> None:
        self._link.after_fork()


class AsyncOwnFunction(Described[P, R]):
    """An own function of a client that awaits.

    A task that is cancelled while its function runs settles it as failed, and the operation is unknown: nobody knows
    how far it came. A plain function cannot be stopped; it goes on in its thread and is settled as it ends. A
    settlement under way is always finished.
    """

    def __init__(self, function: Callable[..., Any], options: Options, link: AsyncLink, beats: AsyncHeartbeats) -> None:
        super().__init__(function, options)
        self._link = link
        self._beats = beats

    async def __call__(self, *args: Any, operation: str | None = None, wait_ms: int | None = None, **kwargs: Any) -> R:
        """As `OwnFunction.__call__`."""
        asked = self._asked(operation, wait_ms, args, kwargs)
        granted = await self._claimed(claims.claim(asked))
        if isinstance(granted, Envelope):
            return self._decoded(ends.content(granted))
        if inspect.iscoroutinefunction(self.function):
            end, envelope = await self._settled(granted, await self._run(granted, args, kwargs))
        else:
            end, envelope = await asyncio.shield(self._link.start_apart(self._run_and_settle(granted, args, kwargs)))
        return self._decoded(ends.conclude(end, envelope))

    def under(self, operation: str, *, wait_ms: int | None = None) -> Callable[P, Coroutine[Any, Any, R]]:
        """The same call with the function's own types."""

        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            return self(*args, operation=operation, wait_ms=wait_ms, **kwargs)

        return call

    async def _claimed(self, flow: Flow[Grant | Envelope]) -> Grant | Envelope:
        """In a task of its own. Whoever is cancelled meanwhile does not know whether it was granted; then it is given
        back, by the task, or where that has ended just now, here.
        """
        task = self._link.start_apart(self._link.carry_out(flow))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancel():
                granted = None if task.cancelled() or task.exception() else task.result()
                if isinstance(granted, Grant):
                    self._link.start_apart(self._link.carry_out(claims.give_back(granted)))
            raise

    async def _run(self, grant: Grant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> End:
        if grant.is_too_old:
            return self._end_of_error(TOO_OLD)
        running = RUNNING.set(grant.attempt)
        try:
            with self._beats.during(grant):
                value = await _ran(self.function, *args, **kwargs)
        except GeneratorExit:
            raise  # nothing can be awaited any more, so the claim runs out
        except BaseException as error:
            return self._end_of_error(error)
        finally:
            RUNNING.reset(running)
        return self._end_of_value(value)

    async def _settled(self, grant: Grant, end: End) -> tuple[End, Envelope | None]:
        """In a task of its own: the end has happened, whoever still waits for it."""
        task = self._link.start_apart(self._link.carry_out(claims.settle(grant, end)))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_what_nobody_hears)
            raise

    async def _run_and_settle(
        self, grant: Grant, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[End, Envelope | None]:
        return await self._settled(grant, await self._run(grant, args, kwargs))


def _log_what_nobody_hears(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        LOG.error("whoever called was cancelled, and so nobody is told: %s", error)


async def _ran(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What it returns; a plain function runs in a worker thread, in which `current_attempt` is the same."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    value = await asyncio.to_thread(function, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value


class Decorate(Protocol):
    """What `AsyncOnceward.operation` returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncOwnFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AsyncOwnFunction[P, R]: ...
