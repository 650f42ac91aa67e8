"""The client that blocks."""

from __future__ import annotations

import inspect
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import httpx

from . import _wire as wire
from . import answer, functions, lookups
from ._clock import now_ms
from ._delivery import deliver
from ._link import Link, Place
from .answer import Answer, Gateway, Status
from .errors import GatewayUnreachable, Refused
from .functions import Options, OwnFunction, P, R
from .heartbeat import Heartbeats


class Onceward:
    """A gateway, and what is called through it. Any number of threads may use one; it keeps its connections, so make
    one and keep it.

    `url` and `token` are those of the environment (`ONCEWARD_URL`, else http://127.0.0.1:7070; `ONCEWARD_TOKEN`) unless
    they are given. `transport` is one of httpx, for a proxy or certificates of your own.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._link = Link(Place(url, token), transport)
        self._beats = Heartbeats(lambda request: self._link.send(request))
        self._own = functions.Registry()
        _CLIENTS.add(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._link.place.url!r})"

    def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        operation: str | None = None,
        scope: str | None = None,
        wait_ms: int | None = None,
    ) -> Answer:
        """Calls a tool of the gateway and waits for its receipt: the first call's, however often it is made with the
        same `operation`.

        `operation` is the stored id of the intention. `scope` names the run, for tools that go by runs. `wait_ms` is
        how long the result is waited for; the work goes on after it.

        Raises `OperationError`, `Refused`, `GatewayUnreachable`; and `InvalidJson`, `ValueError`, `TypeError` before
        anything is sent.
        """
        return answer.read_call(self._link.carry_out(deliver(wire.call(tool, arguments, operation, scope, wait_ms))))

    def status(self, operation: str, *, wait_ms: int = 0) -> Status:
        """How an operation stands; with `wait_ms`, once its running attempt has ended or that time is over. Nothing is
        sent anywhere.
        """
        return answer.read_status(self._link.carry_out(deliver(wire.status(operation, wait_ms))))

    def handshake(self) -> Gateway:
        """Which gateway answers, and whether its ledger takes writes."""
        live = self._link.carry_out(deliver(wire.healthz()))
        return answer.read_gateway(live, self._link.carry_out(deliver(wire.readyz())))

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
    ) -> Callable[[Callable[P, R]], OwnFunction[P, R]]:
        """Makes an own function of a function: each operation id runs it at most once, as far as anybody can know.

        `title`: one line for people, with `{parameter}` in it. `settle_within_ms`: how long after this process was last
        heard of a run counts as lost; heartbeats keep it while it runs. `wait_ms`: how long a run elsewhere is waited
        for. `not_sent`: exceptions that surely come before any effect. `effect_id`: the effect's own name, from the
        value. `encode`, `decode`: between the value and JSON.
        """
        options = Options(tool, title, settle_within_ms, wait_ms, tuple(not_sent), effect_id, encode, decode)

        def decorate(function: Callable[P, R]) -> OwnFunction[P, R]:
            if inspect.iscoroutinefunction(function):
                raise TypeError("this client blocks; an async function belongs to AsyncOnceward")
            own = OwnFunction(function, options, self._link, self._beats)
            self._own.add(own)
            return own

        return decorate

    def run_due_lookups(self, limit: int = 50) -> int:
        """Looks once for the effects of lost runs of this client's functions. How many reports were recorded. Needs a
        token of the role `application`.
        """
        mine = self._own.lookups()
        reply = self._link.carry_out(deliver(wire.due_lookups(mine, limit)))
        return sum(self._look(due, lookup) for due, lookup in lookups.served(reply, mine, limit))

    def _look(self, due: lookups.Due, lookup: lookups.Lookup) -> bool:
        asked_ms = now_ms()
        try:
            request = lookups.report(due, lookup.function(due), asked_ms, now_ms())
        except Exception:
            lookups.says_nothing(due)
            return False
        return lookups.was_recorded(due, self._link.carry_out(deliver(request)))

    def serve_lookups(self, stop: threading.Event | None = None, every_ms: int = 1000) -> None:
        """Looks for the effects of lost runs until `stop` is set. Goes on through a gateway that cannot be reached;
        raises `Refused` where the token does not permit it.
        """
        stop = stop or threading.Event()
        while not stop.is_set():
            try:
                self.run_due_lookups()
            except (GatewayUnreachable, Refused) as error:
                lookups.goes_on_after(error)
            stop.wait(every_ms / 1000)

    def close(self) -> None:
        """Ends its connections and its heartbeats. Close it when nothing runs: what runs must still be settled."""
        self._beats.close()
        self._link.close()

    def __enter__(self) -> Onceward:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after_fork(self) -> None:
        self._link.after_fork()
        self._beats.after_fork()


_CLIENTS: weakref.WeakSet[Any] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_CLIENTS):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
