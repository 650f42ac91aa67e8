"""Puts the gateway's binary into the wheel where one is given: `pip install onceward` then brings `onceward serve`.

Without `ONCEWARD_BINARY` the wheel is the client alone, and fits every platform.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Binary(BuildHookInterface[Any]):
    """Adds the binary as a script of the environment that the wheel is installed into."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        binary = os.environ.get("ONCEWARD_BINARY")
        if self.target_name != "wheel" or not binary:
            return
        if not os.path.isabs(binary) or not os.path.isfile(binary):
            raise ValueError(f"ONCEWARD_BINARY is the absolute path of a file, and {binary!r} is none")
        build_data["shared_scripts"][binary] = "onceward"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['ONCEWARD_PLATFORM']}"
