from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from onceward import AsyncOnceward, Onceward


def test_a_definition_is_made_of_hints_and_docstring() -> None:
    client = Onceward("http://127.0.0.1:9", "t")

    @client.operation("create_report")
    def create_report(
        name: Annotated[str, Field(description="Which quarter")], rows: int = 5, form: Literal["pdf", "csv"] = "pdf"
    ) -> str:
        """Makes a report.

        It takes a while.
        """
        return name

    definition = create_report.definition
    assert (definition["name"], definition["description"]) == ("create_report", "Makes a report.\n\nIt takes a while.")
    schema = definition["input_schema"]
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["name"], False)
    assert schema["properties"]["name"]["description"] == "Which quarter"
    assert schema["properties"]["rows"]["default"] == 5
    assert schema["properties"]["form"]["enum"] == ["pdf", "csv"]


def test_an_async_function_has_the_same_definition() -> None:
    client = AsyncOnceward("http://127.0.0.1:9", "t")

    @client.operation("create_report")
    async def create_report(name: str) -> None: ...

    assert create_report.definition["input_schema"]["required"] == ["name"]
    assert create_report.definition["description"] == ""


def test_without_pydantic_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    client = Onceward("http://127.0.0.1:9", "t")

    def function(a: Any) -> None: ...

    with pytest.raises(ImportError, match=r"onceward\[schema\]"):
        _ = client.operation("x")(function).definition
