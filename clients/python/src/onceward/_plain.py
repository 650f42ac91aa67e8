"""HTTP/1.1 over the standard library, as a transport of httpx: what a client uses that reaches its gateway without TLS.

An own function costs two requests, and httpx's own transport takes half a millisecond of each to think; this one a
tenth.
"""

from __future__ import annotations

import socket
import threading
import time
from http.client import HTTPException, HTTPResponse
from io import BufferedReader
from typing import Any

import httpx

_HEAD_END = b"\r\n\r\n"

Address = tuple[str, int]
Header = tuple[bytes, bytes]


class PlainTransport(httpx.BaseTransport):
    """Sends each request once over a connection that is kept. Any number of threads may use one."""

    def __init__(self, connections_max: int, kept_alive_s: float) -> None:
        self._connections_max = connections_max
        self._kept_alive_s = kept_alive_s
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        url = request.url
        head = head_of(request.method, url.raw_path, request.headers.raw)
        status, headers, content = self.exchange(
            (url.host, url.port or 80), head, request.read(), timeouts.get("connect"), timeouts.get("read")
        )
        return httpx.Response(status, headers=headers, content=content)

    def exchange(
        self, address: Address, head: bytes, body: bytes, connect_within_s: float | None, answer_within_s: float | None
    ) -> tuple[int, list[Header], bytes]:
        """Status, headers and body of the answer. Raises the transport errors of httpx."""
        connection = self._kept() or _Connection(address, connect_within_s)
        may_be_kept = False
        try:
            connection.sock.settimeout(answer_within_s)
            # In one piece: two would wake the gateway twice.
            connection.sock.sendall(head + body)
            status, headers, content, may_be_kept = connection.answer()
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error) or "timed out") from error
        except (OSError, ValueError, HTTPException) as error:
            raise httpx.ReadError(str(error) or type(error).__name__) from error
        finally:
            # Whatever interrupted this one, the next must not read its answer.
            if may_be_kept:
                self._keep(connection)
            else:
                connection.close()
        return status, headers, content

    def _kept(self) -> _Connection | None:
        """A connection that the gateway has not closed meanwhile, as far as can be seen."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if time.monotonic() - connection.idle_since < self._kept_alive_s and connection.is_silent():
                return connection
            connection.close()

    def _keep(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            if len(self._idle) < self._connections_max:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def head_of(method: str, target: bytes, headers: list[Header]) -> bytes:
    """A request's first lines. Raises `LocalProtocolError` for a line break inside one: it would make another of it."""
    lines = [b"%s %s HTTP/1.1" % (method.encode("ascii"), target)]
    lines += [name + b": " + value for name, value in headers]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise httpx.LocalProtocolError("a header has a line break in it")
    return head + _HEAD_END


Answer = tuple[int, list[Header], bytes, bool]
"""Status, headers, body, and whether the connection may be used again."""


class _Connection:
    def __init__(self, address: Address, within_s: float | None) -> None:
        try:
            self.sock = socket.create_connection(address, within_s)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error) or "timed out") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        self.reader: BufferedReader = self.sock.makefile("rb")
        self.idle_since = 0.0

    def answer(self) -> Answer:
        return self._plain_answer() or self._any_answer()

    def _plain_answer(self) -> Answer | None:
        """An answer as the gateway writes it: its head in one piece, its body of a length that is named."""
        head, end, _ = self.reader.peek().partition(_HEAD_END)
        first, *lines = head.split(b"\r\n")
        if not end or not first.startswith(b"HTTP/1.1 ") or not first[9:12].isdigit():
            return None
        headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        framing = {name.lower(): value for name, value in headers if name.lower() in _FRAMING}
        length = framing.pop(b"content-length", b"")
        if framing or not length.isdigit():
            return None
        self.reader.read(len(head) + len(end))
        content = self.reader.read(int(length))
        if len(content) != int(length):
            raise ConnectionError("the answer ended before it was whole")
        return int(first[9:12]), headers, content, True

    def _any_answer(self) -> Answer:
        """Whatever else may stand between: the standard library reads it."""
        response = HTTPResponse(self)  # type: ignore[arg-type]
        response.begin()
        content = response.read()
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.getheaders()]
        return response.status, headers, content, not response.will_close

    def makefile(self, mode: str) -> BufferedReader:
        """What a response is read from: nothing that has arrived is lost between two ways of reading."""
        return _Lent(self.reader)  # type: ignore[return-value]

    def is_silent(self) -> bool:
        """Whether nothing can be read. No answer is due on an idle connection, so that what can be read is its end."""
        self.sock.settimeout(0)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            # Nor may anything be left that came with the answer before: it would be taken for the next one.
            return not self.reader.peek(1)
        except OSError:
            return False
        return False

    def close(self) -> None:
        self.reader.close()
        self.sock.close()


_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"connection", b"trailer", b"upgrade"))


class _Lent:
    """A reader whose borrower may not close it."""

    def __init__(self, reader: BufferedReader) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def close(self) -> None:
        pass
