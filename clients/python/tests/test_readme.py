"""What the README shows is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from gateway import Bench

from onceward import OperationUnknown, new_operation_id


class Shop:
    """What the README's functions write to."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def make_report(self, name: str, rows: int, idempotency_key: str) -> dict[str, Any]:
        self.made.append({"id": f"R-{len(self.made) + 1}", "name": name, "rows": rows})
        return self.made[-1]

    def make_order(self, item: str) -> dict[str, Any]:
        self.made.append({"id": "O-1", "name": item})
        return self.made[-1]

    def reports_with_keys(self, keys: tuple[str, ...]) -> list[dict[str, Any]]:
        return self.made

    def count(self, name: str) -> int:
        return len([one for one in self.made if one["name"] == name])


def test_every_block_runs_one_after_the_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_URL", bench.url)
    monkeypatch.setenv("ONCEWARD_TOKEN", bench.application)
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text(), re.DOTALL)
    shop = Shop()
    namespace: dict[str, Any] = {"shop": shop}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert len(blocks) == 6
    with pytest.raises(OperationUnknown):
        namespace["lossy"](item="printer", operation=new_operation_id())
    assert [one["name"] for one in shop.made] == ["Q3", "Q4", "Q5", "printer"]
    namespace["client"].close()
