"""The transport of clients without TLS: answers in every shape that may come, over connections that are kept."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from onceward._plain import PlainTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """Answers each request with the next of these pieces; `None` ends the connection."""

    def __init__(self, answers: list[list[bytes | None]]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"
        self.connections = 0
        self.requests: list[bytes] = []
        self.ended = threading.Semaphore(0)
        self._answers = answers
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._answers:
            connection, _ = self.listener.accept()
            self.connections += 1
            while self._answers and (request := connection.recv(65536)):
                self.requests.append(request)
                pieces = self._answers.pop(0)
                for piece in pieces:
                    if piece is not None:
                        connection.sendall(piece)
                if None in pieces:
                    break
            connection.close()
            self.ended.release()


@pytest.fixture
def ask() -> Iterator[Callable[[Server], httpx.Response]]:
    transport = PlainTransport(4, 30)

    def asked(server: Server, body: bytes = b"{}") -> httpx.Response:
        timeout = {"connect": 5, "read": 5}
        request = httpx.Request("POST", server.url, content=body, extensions={"timeout": timeout})
        return transport.handle_request(request)

    yield asked
    transport.close()


@pytest.mark.parametrize(
    ("pieces", "status", "content"),
    [
        ([OK], 200, b"ok"),
        ([OK[:20], OK[20:30], OK[30:]], 200, b"ok"),
        ([b"HTTP/1.1 409 Conflict\r\nContent-Length:  3\r\n\r\nnoo"], 409, b"noo"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"], 200, b"hi"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b""),
        ([b"HTTP/1.0 200 OK\r\n\r\nold", None], 200, b"old"),
    ],
)
def test_an_answer_is_read_in_whatever_shape_it_comes(
    ask: Callable[[Server], httpx.Response], pieces: list[bytes | None], status: int, content: bytes
) -> None:
    server = Server([pieces, [OK]])
    response = ask(server)
    assert (response.status_code, response.read()) == (status, content)
    assert ask(server).read() == b"ok", "the next one reads its own answer"
    assert server.connections == (2 if None in pieces else 1)


def test_an_answer_that_ends_early_is_a_lost_reply_and_its_connection_is_not_kept(
    ask: Callable[[Server], httpx.Response],
) -> None:
    server = Server([[b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", None], [None], [OK]])
    for _ in range(2):
        with pytest.raises(httpx.ReadError):
            ask(server)
    assert ask(server).read() == b"ok"
    assert server.connections == 3


def test_a_connection_that_the_gateway_closed_meanwhile_is_not_used_again(
    ask: Callable[[Server], httpx.Response],
) -> None:
    server = Server([[OK, None], [OK]])
    assert ask(server).read() == b"ok"
    assert server.ended.acquire(timeout=5)
    assert ask(server).read() == b"ok"
    assert server.connections == 2


def test_head_and_body_go_out_in_one_piece_and_no_header_makes_another(ask: Callable[[Server], httpx.Response]) -> None:
    server = Server([[OK]])
    ask(server)
    assert server.requests[0].endswith(b"\r\n\r\n{}")
    request = httpx.Request("GET", server.url, headers=[(b"A", b"b\r\nX-Injected: c")])
    with pytest.raises(httpx.LocalProtocolError):
        PlainTransport(1, 1).handle_request(request)


def test_nobody_there_is_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(httpx.ConnectError):
        PlainTransport(1, 1).handle_request(httpx.Request("GET", f"http://127.0.0.1:{port}/"))


def test_what_came_with_an_answer_is_not_taken_for_the_next_one(ask: Callable[[Server], httpx.Response]) -> None:
    server = Server([[OK + OK.replace(b"ok", b"no")], [OK]])
    assert ask(server).read() == b"ok"
    assert ask(server).read() == b"ok"
    assert server.connections == 2
