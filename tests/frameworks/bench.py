"""A gateway before a sandbox, a wire between that loses replies, and the examples: what the framework tests share.

`ONCEWARD_BIN` names the gateway's binary. Effects are counted at the sandbox, never in an answer.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0

CONFIGURATION = """
version = 1
ledger = "sqlite:ledger.db"
tenant = "acme"
listen = "127.0.0.1:0"

[destination.helpdesk]
url = "{sandbox}"
contract = "none"
[destination.helpdesk.tool.create_ticket]
title = "Ticket: {{/title}}"
description = "Opens a ticket at the helpdesk."
schema_file = "ticket.json"
request = {{ method = "POST", path = "/tickets", body = "arguments" }}
effect_id = "/id"
[destination.helpdesk.tool.send_mail]
schema = {{ type = "object" }}
request = {{ method = "POST", path = "/mail", body = "arguments" }}
without_identity = "scope"
"""

TICKET_SCHEMA = {
    "type": "object",
    "required": ["title", "body"],
    "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
    "additionalProperties": False,
}


def until(what: str, look: Callable[[], T | None]) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {PATIENCE_S} s: {what}")


class Process:
    """A program of the gateway's that says where it listens."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = folder / f"{arguments[0]}.out"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [os.environ["ONCEWARD_BIN"], *arguments], cwd=folder, stdout=out, stderr=out, env=environment
            )
        self.url = until(f"{arguments[0]} listens", self._address)

    def said(self) -> str:
        return self.output.read_text()

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.said()
        found = re.search(r"http://127\.0\.0\.1:\d+", self.said())
        return found and found[0]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Bench:
    def __init__(self, folder: Path) -> None:
        self.sandbox = Process(folder, "sandbox", "--listen", "127.0.0.1:0", "--db", "sandbox.db")
        (folder / "ticket.json").write_text(json.dumps(TICKET_SCHEMA))
        (folder / "onceward.toml").write_text(CONFIGURATION.format(sandbox=self.sandbox.url))
        self.gateway = Process(folder, "serve")
        self.url = self.gateway.url
        self.agent, self.operator = self._token("agent"), self._token("operator")

    def _token(self, role: str) -> str:
        return until(f"the {role}'s token", lambda: re.search(rf"ow_{role}_\S+", self.gateway.said()))[0]

    def break_next_ticket(self) -> None:
        """The sandbox has the effect of the next one, and cuts the connection."""
        rule = {"match": {"path": "/tickets", "nth": 1}, "fault": "lose_reply_after_commit"}
        httpx.post(f"{self.sandbox.url}/admin/faults", json=[rule], trust_env=False).raise_for_status()

    def tickets(self) -> tuple[int, int]:
        """How many tickets there are at the sandbox, and how many requests tried to make one."""
        return self.effects("tickets")

    def effects(self, resource: str) -> tuple[int, int]:
        answer = httpx.get(f"{self.sandbox.url}/admin/effects?resource={resource}", trust_env=False).json()
        return answer["count"], answer["requests"]

    def settle_unknown(self, receipt: dict[str, Any]) -> None:
        """A person looked at the destination, and records that the one unknown ticket is there."""
        (row,) = self._ask("GET", "/v1/operations?state=unknown")["operations"]
        decision = {
            "choice": "confirmed_done",
            "reason": "seen_at_destination",
            "evidence": "it is in the helpdesk's list",
            "expected": row["version"],
            "receipt": {"status": 201, "body": receipt},
        }
        self._ask("POST", f"/v1/operations/{row['operation_id']}/decisions", decision)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.operator}"}
        answer = httpx.request(method, self.url + path, json=body, headers=headers, trust_env=False)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def end(self) -> None:
        self.gateway.end()
        self.sandbox.end()


class Wire:
    """An address before the gateway that passes everything on, and loses replies to calls and settlements when told to.

    A reply is lost after the gateway has given it: the effect is there, and nobody hears of it.
    """

    def __init__(self, gateway: str) -> None:
        self._to = httpx.URL(gateway)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lost = 0
        self.held = threading.Event()
        self._lose = 0
        self._hold = False
        self._passed = httpx.Client(trust_env=False, timeout=PATIENCE_S)
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, times: int) -> None:
        """The next replies to calls are lost: their connections break."""
        self._lose = times

    def hold(self) -> None:
        """The next reply to a call never comes, and the connection stays. `held` says when it would have come."""
        self._hold = True

    def close(self) -> None:
        self._listener.close()
        self._passed.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as incoming:
            while line := incoming.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while (header := incoming.readline().decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = incoming.read(int(headers.get("content-length", 0)))
                if not self._pass_on(connection, method, path, headers, body):
                    return

    def _pass_on(self, connection: socket.socket, method: str, path: str, headers: dict[str, str], body: bytes) -> bool:
        to_keep = {
            name: value for name, value in headers.items() if name not in ("host", "connection", "accept-encoding")
        }
        answer = self._passed.request(
            method, self._to.join(path), headers={**to_keep, "accept-encoding": "identity"}, content=body
        )
        if method == "POST" and (path.endswith(("/calls", "/settlement")) or b'"tools/call"' in body):
            if self._hold:
                self._hold = False
                self.held.set()
                connection.recv(1)  # until whoever asked is gone
                return False
            if self._lose:
                self._lose -= 1
                self.lost += 1
                return False
        head = [f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}"]
        head += [
            f"{name}: {value}"
            for name, value in answer.headers.items()
            if name not in ("transfer-encoding", "content-length", "connection")
        ]
        head += [f"content-length: {len(answer.content)}", "", ""]
        connection.sendall("\r\n".join(head).encode() + answer.content)
        return True


def example(name: str, file: str = "agent.py") -> ModuleType:
    """The code of an example, as it stands in `examples/`."""
    folder = ROOT / "examples" / name
    spec = importlib.util.spec_from_file_location(f"example_{name}_{file}".replace("-", "_"), folder / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("agent", None)
        sys.modules.pop("script", None)
    return module


def start(name: str, file: str, url: str, bench: Bench, folder: Path) -> subprocess.Popen[str]:
    """The example as a process of its own, whose state lies in `folder`."""
    environment = {**os.environ, "ONCEWARD_URL": url, "ONCEWARD_TOKEN": bench.agent, "HELPDESK_URL": bench.sandbox.url}
    environment["PYTHONPATH"] = str(ROOT / "clients/python/src")
    command = [sys.executable, str(ROOT / "examples" / name / file)]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def killed_between_effect_and_checkpoint(
    name: str, bench: Bench, wire: Wire, folder: Path, file: str = "agent.py"
) -> str:
    """Runs the example, kills it when its ticket is there and it has not heard of it, and runs it again to its end.
    What the second process printed.
    """
    wire.hold()
    victim = start(name, file, wire.url, bench, folder)
    try:
        until("the gateway would have replied", lambda: wire.held.is_set() or victim.poll() is not None or None)
        assert victim.poll() is None, victim.communicate()[0]
    finally:
        victim.kill()
    assert victim.wait() == -9, "it was killed, and did not end by itself"
    assert bench.tickets() == (1, 1), "the effect is there"
    second = start(name, file, bench.url, bench, folder)
    said, _ = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, said
    return said


def saw(framework: str, case: str, texts: list[str]) -> list[str]:
    """Prints what the model saw, one line for each result of a tool, and gives it back."""
    for text in texts:
        print(f"model saw [{framework}/{case}]: {' '.join(text.split())}")
    return texts
