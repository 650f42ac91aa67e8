"""A real gateway and a real sandbox for the tests: processes of their own, in a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

CONFIGURATION = """
version = 1
ledger = "sqlite:ledger.db"
tenant = "acme"
listen = "127.0.0.1:0"

[destination.shop]
url = "{sandbox}"
contract = "none"
[destination.shop.tool.create_ticket]
request = {{ method = "POST", path = "/tickets", body = "arguments" }}
[destination.shop.tool.create_payment]
request = {{ method = "POST", path = "/payments", body = "arguments" }}
refused_if = {{ status = [402] }}
[destination.shop.tool.create_order]
request = {{ method = "POST", path = "/orders", body = "arguments" }}
approval = "required"
[destination.shop.tool.send_mail]
request = {{ method = "POST", path = "/mail", body = "arguments" }}
without_identity = "scope"
[destination.shop.tool.get_ticket]
read = true
request = {{ method = "GET", path = "/tickets/{{/id}}" }}

[destination.keyed]
url = "{sandbox}"
[destination.keyed.contract]
version = 1
key = {{ carriers = [{{ in = "header", name = "Idempotency-Key" }}] }}
same_input = {{ behaviour = "replays_stored", saved = {{ 2xx = "stored", 500 = "stored" }} }}
other_input = {{ behaviour = "rejects", statuses = [422] }}
in_flight = {{ behaviour = "rejects", statuses = [409] }}
horizon = {{ kind = "at_least", min = "24h", clock = "first_request" }}
execution = {{ refused_before_effect = [400, 401, 403, 404], effect_atomic_with_key = true }}
provenance = {{ confidence = "official_doc", read = "2026-11-29" }}
[destination.keyed.tool.pay]
request = {{ method = "POST", path = "/payments", body = "arguments" }}

[destination.nowhere]
url = "http://127.0.0.1:9"
contract = "none"
[destination.nowhere.tool.write_nowhere]
request = {{ method = "POST", path = "/", body = "arguments" }}
retry = {{ attempts_max = 1 }}
"""


def until(what: str, look: Callable[[], T | None], within_s: float = 20.0) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {within_s} s: {what}")


class Process:
    """A program that says where it listens on its first line."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        binary = os.environ.get("ONCEWARD_BIN")
        if not binary:
            raise RuntimeError("ONCEWARD_BIN names the built gateway; the tests run against a real one")
        self.output = folder / f"{arguments[0]}.out"
        self.errors = folder / f"{arguments[0]}.err"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
        with self.output.open("ab") as out, self.errors.open("ab") as err:
            self.process = subprocess.Popen([binary, *arguments], cwd=folder, stdout=out, stderr=err, env=environment)
        self.url = until(f"{arguments[0]} listens", self._address)

    def said(self) -> str:
        return self.output.read_text()

    def _address(self) -> str | None:
        if self.process.poll() is not None:
            raise AssertionError(f"it ended: {self.errors.read_text()}")
        found = re.findall(r"http://127\.0\.0\.1:\d+", self.said())
        return found[-1] if found else None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Bench:
    """A gateway before a sandbox, with a credential for each role."""

    def __init__(self, folder: Path) -> None:
        self.sandbox = Process(folder, "sandbox", "--listen", "127.0.0.1:0", "--db", "sandbox.db")
        (folder / "onceward.toml").write_text(CONFIGURATION.format(sandbox=self.sandbox.url))
        self.gateway = Process(folder, "serve")
        self.url = self.gateway.url
        tokens = until("tokens", lambda: re.findall(r"ow_(?:agent|operator)_\S+", self.gateway.said()) or None)
        self.agent, self.operator = tokens[:2]
        made = self.ask("POST", "/v1/credentials", {"principal": "app", "role": "application", "tools": ["*"]})
        self.application: str = made["token"]

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        """As the operator, unless another token is given."""
        headers = {"Authorization": f"Bearer {token or self.operator}"}
        answer = httpx.request(method, self.url + path, json=body, headers=headers, trust_env=False)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def fault(self, path: str, fault: str, times: int = 1) -> None:
        """For the next requests to this path of the sandbox."""
        httpx.post(
            f"{self.sandbox.url}/admin/faults",
            json=[{"match": {"path": path, "nth": 1, "times": times}, "fault": fault}],
            trust_env=False,
        )

    def effects(self, resource: str) -> int:
        """How many there are at the sandbox, by its own count."""
        answer = httpx.get(f"{self.sandbox.url}/admin/effects", params={"resource": resource}, trust_env=False).json()
        return int(answer["count"])

    def state(self, operation: str) -> str:
        return str(self.ask("GET", f"/v1/operations/{operation}")["operation"]["state"])

    def until_state(self, operation: str, state: str) -> None:
        until(f"{operation} is {state}", lambda: self.state(operation) == state)

    def kill(self) -> None:
        self.gateway.kill()
        self.sandbox.kill()
