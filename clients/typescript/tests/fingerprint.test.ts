import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { canonical, canonicalArguments, fingerprint, InvalidJson } from "../src/fingerprint.js";

interface Vectors {
  vectors: {
    name: string;
    tool: string;
    tool_version: string;
    arguments: string;
    free_text: string[];
    volatile: string[];
    key: string | null;
    canonical: string;
    fingerprint: string;
  }[];
  pairs: { name: string; left: string; right: string; same: boolean }[];
  refusals: {
    name: string;
    text?: string;
    hex?: string;
    repeat?: { before: string; unit: string; times: number; after: string };
    code: string;
    place: string;
  }[];
}

// From dist/tests to the root of the repository.
const file = new URL("../../../../crates/onceward-core/vectors/fingerprint.json", import.meta.url);
const { vectors, pairs, refusals } = JSON.parse(readFileSync(file, "utf8")) as Vectors;

function refusal(args: unknown): [code: string, place: string] {
  try {
    return ["accepted", canonical(args)];
  } catch (error) {
    assert(error instanceof InvalidJson);
    return [error.code, error.place];
  }
}

test("every_vector_has_its_canonical_text_and_fingerprint", () => {
  assert(vectors.length >= 80);
  for (const one of vectors) {
    const options = {
      freeText: one.free_text,
      volatile: one.volatile,
      ...(one.key === null ? {} : { key: Buffer.from(one.key, "hex") }),
    };
    const parsed: unknown = JSON.parse(one.arguments);
    const forms = [one.arguments, Buffer.from(one.arguments), ...(typeof parsed === "string" ? [] : [parsed])];
    for (const args of forms) {
      assert.equal(canonical(args), one.canonical, one.name);
      assert.equal(fingerprint(one.tool, one.tool_version, args, options), one.fingerprint, one.name);
    }
  }
});

test("two_spellings_are_the_same_or_not_as_the_vectors_say", () => {
  assert(pairs.length >= 28);
  for (const { name, left, right, same } of pairs) assert.equal(canonical(left) === canonical(right), same, name);
});

test("every_refused_document_is_refused_with_its_code_and_place", () => {
  assert(refusals.length >= 60);
  for (const { name, text, hex, repeat, code, place } of refusals) {
    const forms: (string | Uint8Array)[] = [];
    if (hex !== undefined) forms.push(Buffer.from(hex, "hex"));
    if (text !== undefined) forms.push(text, Buffer.from(text));
    if (repeat) forms.push(repeat.before + repeat.unit.repeat(repeat.times) + repeat.after);
    assert(forms.length > 0, name);
    for (const form of forms) assert.deepEqual(refusal(form), [code, place], name);
  }
});

test("a_value_that_is_parsed_already_is_held_to_the_same_rules", () => {
  class Point {
    x = 1;
  }
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const cases: [unknown, string, string][] = [
    [{ a: [1, 2 ** 53] }, "number_out_of_range", "/a/1"],
    [{ a: Number.NaN }, "not_json", "/a"],
    [{ a: [Number.POSITIVE_INFINITY] }, "not_json", "/a/0"],
    [{ a: 1n }, "not_json", "/a"],
    [{ a: [undefined] }, "not_json", "/a/0"],
    [{ "a/b": new Date(0) }, "not_json", "/a~1b"],
    [{ a: new Map() }, "not_json", "/a"],
    [{ a: new Point() }, "not_json", "/a"],
    [{ a: () => 1 }, "not_json", "/a"],
    [{ a: "\ud800" }, "lone_surrogate", "/a"],
    [{ "\ud800": 1 }, "lone_surrogate", ""],
    [circle, "too_deep", "/self".repeat(64)],
    [{ a: "x".repeat(1024 * 1024) }, "too_large", ""],
  ];
  for (const [value, code, place] of cases) assert.deepEqual(refusal(value), [code, place]);
  assert.equal(canonical({ b: 1.0, a: null, c: undefined, d: -0 }), '{"a":null,"b":1,"d":0}');
});

test("arguments_are_an_object", () => {
  for (const value of [[], null, 1, '"text"', "[]"]) {
    assert.throws(() => canonicalArguments(value), { code: "not_an_object" });
  }
  assert.equal(canonicalArguments({}), "{}");
});

test("a_key_or_a_pointer_that_is_none_is_refused", () => {
  assert.throws(() => fingerprint("t", "1", {}, { key: new Uint8Array(31) }), RangeError);
  for (const pointers of [
    ["a"],
    [""],
    ["/~2"],
    ["/a", "/a/b"],
    ["/a", "/a"],
    Array.from({ length: 33 }, (_, at) => `/${at}`),
  ]) {
    assert.throws(() => fingerprint("t", "1", {}, { volatile: pointers }), RangeError, pointers.join());
  }
  assert.equal(fingerprint("t", "1", { ab: 1 }, { freeText: ["/a"], volatile: ["/aa"] }), fingerprint("t", "1", { ab: 1 }));
});

test("a_refusal_says_what_where_and_what_to_do_and_repeats_no_value", () => {
  assert.throws(() => canonical('{"order":{"card":"4242","card":"4343"}}'), {
    message: "the key is given twice in one object; keep one of the two (at /order/card)",
  });
  const long = { ["k".repeat(600)]: Number.NaN };
  assert.deepEqual(refusal({ a: long }), ["not_json", "/a"]);
});
