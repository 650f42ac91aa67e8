"""Keeping the claims of functions that run for long. Nothing is sent for one that ends within a third of its time."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._claims import Grant
from ._wire import Delivered, Reply

LOG = logging.getLogger("onceward")


def _interval_s(grant: Grant) -> float:
    """A third: two in a row may be lost before the claim is."""
    return grant.settle_within_ms / 3000


def _first_s(grant: Grant) -> float:
    """The same, from when it may have been granted."""
    return max(0.0, _interval_s(grant) - grant.age_ms / 1000)


def _goes_on(grant: Grant, delivered: Delivered) -> bool:
    """Whether another heartbeat may help. A failed one never stops the function: its settlement counts as evidence
    then.
    """
    if isinstance(delivered, Reply) and delivered.status != 200:
        LOG.warning("a heartbeat of operation %s was answered %s", grant.attempt.operation_id, delivered.code)
        return delivered.code not in ("claim_lost", "not_found", "denied", "illegal_move")
    return True


class Heartbeats:
    """One daemon thread for all functions of a client, started when the first one runs."""

    def __init__(self, send: Callable[[Any], Delivered]) -> None:
        self._send = send
        self._start_anew()

    def _start_anew(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[int, tuple[float, Grant]] = {}
        self._names = 0
        self._wakes_at = float("inf")
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def during(self, grant: Grant) -> Iterator[None]:
        due = time.monotonic() + _first_s(grant)
        with self._changed:
            self._names += 1
            name = self._names
            self._due[name] = (due, grant)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="onceward-heartbeats", daemon=True)
                self._thread.start()
            elif due < self._wakes_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(name, None)

    def _beat(self) -> None:
        while (found := self._wait_for_one()) is not None:
            name, grant = found
            goes_on = _goes_on(grant, self._send(grant.heartbeat()))
            with self._changed:
                if name in self._due and not goes_on:
                    del self._due[name]

    def _wait_for_one(self) -> tuple[int, Grant] | None:
        """The next that is due, put off to its next time already; `None` at the end."""
        with self._changed:
            while not self._closed:
                name, (due, grant) = min(
                    self._due.items(), key=lambda item: item[1][0], default=(0, (float("inf"), None))
                )
                now = time.monotonic()
                if grant is not None and due <= now:
                    self._due[name] = (now + _interval_s(grant), grant)
                    return name, grant
                self._wakes_at = due
                self._changed.wait(None if grant is None else due - now)
            return None

    def after_fork(self) -> None:
        """In a child process: the thread and the lock are the parent's. The child runs nothing yet."""
        self._start_anew()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()


class AsyncHeartbeats:
    """A timer for each function that runs; a task only for one that runs for long."""

    def __init__(self, send: Callable[[Any], Awaitable[Delivered]]) -> None:
        self._send = send

    @contextmanager
    def during(self, grant: Grant) -> Iterator[None]:
        beating: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            _first_s(grant), lambda: beating.append(asyncio.ensure_future(self._beat(grant)))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task in beating:
                task.cancel()

    async def _beat(self, grant: Grant) -> None:
        while _goes_on(grant, await self._send(grant.heartbeat())):
            await asyncio.sleep(_interval_s(grant))
