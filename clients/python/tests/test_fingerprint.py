"""The fingerprint is byte for byte that of docs/fingerprint.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onceward import InvalidJson, canonical, fingerprint

VECTORS = json.loads((Path(__file__).parents[3] / "crates/onceward-core/vectors/fingerprint.json").read_text())


def document(refusal: dict[str, Any]) -> str | bytes:
    if "hex" in refusal:
        return bytes.fromhex(refusal["hex"])
    if "repeat" in refusal:
        repeat = refusal["repeat"]
        return str(repeat["before"] + repeat["unit"] * repeat["times"] + repeat["after"])
    return str(refusal["text"])


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_every_vector_has_its_canonical_text_and_fingerprint(vector: dict[str, Any]) -> None:
    key = bytes.fromhex(vector["key"]) if vector["key"] else None
    for arguments in (vector["arguments"], vector["arguments"].encode(), json.loads(vector["arguments"])):
        if isinstance(arguments, str) and arguments is not vector["arguments"]:
            continue  # a parsed text would be read as one
        assert canonical(arguments) == vector["canonical"]
        made = fingerprint(
            vector["tool"],
            vector["tool_version"],
            arguments,
            key=key,
            free_text=vector["free_text"],
            volatile=vector["volatile"],
        )
        assert made == vector["fingerprint"]


@pytest.mark.parametrize("pair", VECTORS["pairs"], ids=lambda pair: pair["name"])
def test_every_pair_is_the_same_or_not(pair: dict[str, Any]) -> None:
    assert (fingerprint("t", "1", pair["left"]) == fingerprint("t", "1", pair["right"])) is pair["same"]


@pytest.mark.parametrize("refusal", VECTORS["refusals"], ids=lambda refusal: refusal["name"])
def test_every_refusal_has_its_code_and_place(refusal: dict[str, Any]) -> None:
    with pytest.raises(InvalidJson) as raised:
        canonical(document(refusal))
    assert (raised.value.code, raised.value.place) == (refusal["code"], refusal["place"])


@pytest.mark.parametrize(
    ("value", "code", "place"),
    [
        ({"a": [1, (2, 3)]}, "not_json", "/a/1"),
        ({"a": {1: "one"}}, "not_json", "/a"),
        ({"a": b"bytes"}, "not_json", "/a"),
        ({"a": float("nan")}, "not_json", "/a"),
        ({"a": float("-inf")}, "not_json", "/a"),
        ({"a": 2**53}, "number_out_of_range", "/a"),
        ({"a": -(2**53)}, "number_out_of_range", "/a"),
        ({"a": 1e300}, "number_out_of_range", "/a"),
        ({"a/b": {"~": "\ud800"}}, "lone_surrogate", "/a~1b/~0"),
        ({"a": {"\udc00": 1}}, "lone_surrogate", "/a"),
        ({"a": "x" * 2**20}, "too_large", ""),
        ({"a": "€" * (2**20 // 3)}, "too_large", ""),
    ],
)
def test_a_parsed_value_is_held_to_the_same_rules(value: Any, code: str, place: str) -> None:
    with pytest.raises(InvalidJson) as raised:
        canonical(value)
    assert (raised.value.code, raised.value.place) == (code, place)


def test_a_parsed_value_that_goes_in_circles_is_too_deep() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidJson) as raised:
        canonical(circle)
    assert (raised.value.code, raised.value.place) == ("too_deep", "/0" * 64)


def test_a_boolean_is_no_number_and_a_whole_float_is_an_integer() -> None:
    assert canonical([True, 1, 1.0, -0.0, 1e15, 2.0**53 - 1]) == "[true,1,1,0,1000000000000000,9007199254740991]"


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": b"short"},
        {"key": b"x" * 65},
        {"free_text": ["body"]},
        {"free_text": [""]},
        {"free_text": ["/a~2"]},
        {"free_text": ["/a"], "volatile": ["/a/b"]},
        {"volatile": ["/a", "/a"]},
        {"volatile": [f"/{number}" for number in range(33)]},
    ],
)
def test_keys_and_pointers_that_break_the_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        fingerprint("t", "1", {}, **wrong)
