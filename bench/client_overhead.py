"""What an own function costs through the Python client, beside a bare HTTP call, at one caller on loopback.

    python bench/client_overhead.py target/release/onceward

Everything is measured in one run, in turns, against one gateway with a SQLite ledger in a folder of its own (synchronous=FULL). Figures are
of this machine on this day; quote the ratios.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "clients/python/src"))

import httpx

from onceward import Onceward, new_operation_id

ROUNDS = int(os.environ.get("ROUNDS", "1500"))
WARM = 100


def main() -> None:
    binary = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "onceward.toml").write_text('version = 1\nledger = "sqlite:onceward.db"\ntenant = "main"\n')
        served = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0"],
            cwd=folder,
            env={**os.environ, "ONCEWARD_LOG": "warn"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            said = ""
            while "ow_operator_" not in said:
                said += served.stdout.readline()
            url = re.search(r"listens on (\S+)", said)[1]
            measure(url, re.search(r"ow_agent_\S+", said)[0], folder)
        finally:
            served.terminate()
            served.wait()


def measure(url: str, token: str, folder: str) -> None:
    client = Onceward(url, token)
    bare = httpx.Client(base_url=url)
    disk = os.open(pathlib.Path(folder, "disk"), os.O_CREAT | os.O_RDWR)

    def function(n: int) -> dict:
        return {"n": n}

    own = client.operation("own")(function)

    def commit() -> None:
        os.pwrite(disk, b"x" * 4096, 0)
        os.fdatasync(disk)

    turns = {
        "the function alone": lambda: function(1),
        "a bare HTTP call (httpx, GET /healthz)": lambda: bare.get("/healthz"),
        "a durable write of 4 KiB (fdatasync)": commit,
        "the function, claimed and settled": lambda: own(n=1, operation=new_operation_id()),
    }
    took = {name: [] for name in turns}
    for n in range(ROUNDS + WARM):
        for name, turn in turns.items():
            began = time.perf_counter()
            turn()
            if n >= WARM:
                took[name].append(time.perf_counter() - began)
    for name, all_of_it in took.items():
        ordered = sorted(all_of_it)
        p95 = ordered[int(len(ordered) * 0.95)]
        print(f"{name:42} p50 {statistics.median(ordered) * 1e3:7.3f} ms   p95 {p95 * 1e3:7.3f} ms")
    alone, http, _, whole = (statistics.median(all_of_it) for all_of_it in took.values())
    print(f"\nthe client adds {(whole - alone) * 1e3:.3f} ms p50: {(whole - alone) / http:.2f} bare HTTP calls, with two durable commits")


main()
