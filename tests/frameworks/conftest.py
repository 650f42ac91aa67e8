from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench import Bench, Wire


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("gateway"))
    yield bench
    bench.end()


@pytest.fixture
def wire(bench: Bench) -> Iterator[Wire]:
    wire = Wire(bench.url)
    yield wire
    wire.close()
