"""A tool's definition for a model, from type hints and the docstring. Needs pydantic, which is an optional part of the
package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast


def definition(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """`name`, `description` and `input_schema` (JSON Schema). Raises `ImportError` without pydantic."""
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        raise ImportError(
            "a definition is made by pydantic; install it with `pip install 'onceward[schema]'`"
        ) from error
    schema = TypeAdapter(cast(Any, function)).json_schema()
    return {"name": name, "description": inspect.getdoc(function) or "", "input_schema": schema}
