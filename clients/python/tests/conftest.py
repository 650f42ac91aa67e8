from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from gateway import Bench

from onceward import AsyncOnceward, Onceward


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("gateway"))
    yield bench
    bench.kill()


@pytest.fixture
def client(bench: Bench) -> Iterator[Onceward]:
    with Onceward(bench.url, bench.application) as client:
        yield client


@pytest.fixture
async def aclient(bench: Bench) -> AsyncIterator[AsyncOnceward]:
    async with AsyncOnceward(bench.url, bench.application) as client:
        yield client
