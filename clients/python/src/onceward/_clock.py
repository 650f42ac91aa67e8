"""Elapsed time that goes on while the machine sleeps: a claim that was granted before a suspend is old after it."""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def now_ms() -> float:
    """Milliseconds from some fixed moment."""
    return (time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)) * 1000
