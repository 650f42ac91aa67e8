"""A process that is killed while its function runs. `test_lookups.py` starts it; it says `running` once the effect is
there, or once it is not.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from onceward import Onceward, current_attempt

URL, TOKEN, OPERATION, EFFECTS, HOW = sys.argv[1:]
client = Onceward(URL, TOKEN)


@client.operation("import_file", settle_within_ms=1_000)
def import_file(file: str) -> dict[str, str]:
    if HOW == "after_the_effect":
        with Path(EFFECTS).open("a") as effects:
            effects.write(current_attempt().outbound_key + "\n")
    print("running", flush=True)
    time.sleep(60)
    return {"imported": file}


@import_file.lookup(visible_after_ms=0, works_for_ms=1_000, absences_required=2)
def find_import(due: object) -> None:
    raise AssertionError("this process is dead by then")


import_file(file="a.csv", operation=OPERATION)
