// Checks fingerprint.json with an implementation that shares nothing with the Rust one: its own strict reader and
// canonical writer, numbers and strings as JavaScript writes them (the definition that RFC 8785 refers to), hashes
// from node. Exits 1 and names each vector that does not agree.
//
//   node check.mjs            check
//   node check.mjs --write    fill in what a new vector expects (only where nothing is written yet)

import { createHash, createHmac } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const DOMAIN = "onceward fingerprint v1\0";
const DEPTH_MAX = 64;
const BYTES_MAX = 1024 * 1024;
const NUMBER_MAX = Number.MAX_SAFE_INTEGER;

class Refusal extends Error {
  constructor(code, path, atEnd = false) {
    super(code);
    this.code = code;
    this.place = path.map((token) => "/" + String(token).replaceAll("~", "~0").replaceAll("/", "~1")).join("");
    this.atEnd = atEnd;
  }
}

// Objects become Maps: a plain object would reorder keys like "1" and lose one like "__proto__".
class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.path = [];
  }

  document() {
    const value = this.value(0);
    this.space();
    if (this.at < this.text.length) throw new Refusal("trailing_bytes", []);
    return value;
  }

  refuse(code) {
    throw new Refusal(code, this.path, this.at >= this.text.length);
  }

  space() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at++;
  }

  expect(text) {
    for (const char of text) {
      if (this.text[this.at] !== char) this.refuse("not_json");
      this.at++;
    }
  }

  // Reads `read` as the value named by `token` inside the value being read.
  inside(token, read) {
    this.path.push(token);
    const result = read();
    this.path.pop();
    return result;
  }

  value(depth) {
    this.space();
    switch (this.text[this.at]) {
      case "{": return this.object(depth + 1);
      case "[": return this.array(depth + 1);
      case '"': return this.string();
      case "t": return this.expect("true"), true;
      case "f": return this.expect("false"), false;
      case "n": return this.expect("null"), null;
      default: return this.number();
    }
  }

  object(depth) {
    if (depth > DEPTH_MAX) this.refuse("too_deep");
    this.at++;
    const members = new Map();
    this.space();
    if (this.text[this.at] === "}") return this.at++, members;
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') this.refuse("not_json");
      const key = this.string();
      this.inside(key, () => {
        if (members.has(key)) this.refuse("duplicate_key");
        this.space();
        this.expect(":");
        members.set(key, this.value(depth));
      });
      this.space();
      if (this.text[this.at] === "}") return this.at++, members;
      this.expect(",");
    }
  }

  array(depth) {
    if (depth > DEPTH_MAX) this.refuse("too_deep");
    this.at++;
    const elements = [];
    for (;;) {
      const ended = this.inside(elements.length, () => {
        this.space();
        if (this.text[this.at] === "]") {
          this.at++;
          return true;
        }
        if (elements.length > 0) this.expect(",");
        elements.push(this.value(depth));
        return false;
      });
      if (ended) return elements;
    }
  }

  string() {
    this.at++;
    let result = "";
    for (;;) {
      const char = this.text[this.at];
      if (char === undefined || char < " ") this.refuse("not_json");
      this.at++;
      if (char === '"') return result;
      result += char === "\\" ? this.escape() : char;
    }
  }

  escape() {
    const char = this.text[this.at++];
    const simple = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
    if (Object.hasOwn(simple, char ?? "x")) return simple[char];
    if (char !== "u") this.refuse("not_json");
    const unit = this.unit();
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    if (unit > 0xdbff || this.text.slice(this.at, this.at + 2) !== "\\u") this.refuse("lone_surrogate");
    this.at += 2;
    const low = this.unit();
    if (low < 0xdc00 || low > 0xdfff) this.refuse("lone_surrogate");
    return String.fromCharCode(unit, low);
  }

  unit() {
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.refuse("not_json");
    this.at += 4;
    return parseInt(digits, 16);
  }

  number() {
    const start = this.at;
    const digits = () => {
      const from = this.at;
      while (/[0-9]/.test(this.text[this.at] ?? "")) this.at++;
      if (from === this.at) this.refuse("not_json");
    };
    if (this.text[this.at] === "-") this.at++;
    if (this.text[this.at] === "0") {
      this.at++;
      if (/[0-9]/.test(this.text[this.at] ?? "")) this.refuse("not_json");
    } else {
      digits();
    }
    if (this.text[this.at] === ".") {
      this.at++;
      digits();
    }
    if (/[eE]/.test(this.text[this.at] ?? "")) {
      this.at++;
      if (/[+-]/.test(this.text[this.at] ?? "")) this.at++;
      digits();
    }
    const number = Number(this.text.slice(start, this.at));
    if (!(Math.abs(number) <= NUMBER_MAX)) this.refuse("number_out_of_range");
    return number;
  }
}

function read(bytes) {
  if (bytes.length > BYTES_MAX) throw new Refusal("too_large", []);
  const decode = (part) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(part);
  try {
    return new Reader(decode(bytes)).document();
  } catch (error) {
    if (error instanceof Refusal) throw error;
  }
  let valid = bytes.length;
  for (;;) {
    try {
      decode(bytes.subarray(0, --valid));
      break;
    } catch { /* one byte less */ }
  }
  const reader = new Reader(decode(bytes.subarray(0, valid)));
  try {
    reader.document();
  } catch (error) {
    if (!error.atEnd) throw error;
    throw new Refusal("not_utf8", reader.path);
  }
  throw new Refusal("not_utf8", []);
}

function canonical(value) {
  if (value instanceof Map) {
    const keys = [...value.keys()].sort(); // by UTF-16 code units, which is what RFC 8785 asks for
    return "{" + keys.map((key) => JSON.stringify(key) + ":" + canonical(value.get(key))).join(",") + "}";
  }
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  return JSON.stringify(value);
}

// Members leave their object; elements leave null behind.
function without(document, pointers) {
  for (const pointer of pointers) {
    const tokens = pointer.split("/").slice(1).map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = tokens.pop();
    const index = (token) => (/^(0|[1-9][0-9]*)$/.test(token) ? Number(token) : -1);
    let parent = document;
    for (const token of tokens) {
      parent = parent instanceof Map ? parent.get(token) : Array.isArray(parent) ? parent[index(token)] : undefined;
    }
    if (parent instanceof Map) parent.delete(last);
    if (Array.isArray(parent) && index(last) in parent) parent[index(last)] = null;
  }
  return document;
}

function fingerprint(vector) {
  const compared = canonical(without(read(Buffer.from(vector.arguments)), [...vector.free_text, ...vector.volatile]));
  const bytes = [Buffer.from(DOMAIN)];
  for (const text of [vector.tool, vector.tool_version, compared]) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(text)));
    bytes.push(length, Buffer.from(text));
  }
  const hash = vector.key === null ? createHash("sha256") : createHmac("sha256", Buffer.from(vector.key, "hex"));
  return hash.update(Buffer.concat(bytes)).digest("hex");
}

// A refusal's bytes: as text, as hex, or too large to be written out.
function bytesOf(refusal) {
  if (refusal.hex !== undefined) return Buffer.from(refusal.hex, "hex");
  if (refusal.text !== undefined) return Buffer.from(refusal.text);
  const { before, unit, times, after } = refusal.repeat;
  return Buffer.from(before + unit.repeat(times) + after);
}

function refusalOf(bytes) {
  try {
    const text = canonical(read(bytes));
    if (Buffer.byteLength(text) > BYTES_MAX) return { code: "too_large", place: "" };
    return { code: "accepted", place: text };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { code: error.code, place: error.place };
  }
}

const write = process.argv.includes("--write");
const file = new URL("fingerprint.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8"));
let wrong = 0;

function agree(name, entry, expected) {
  for (const [field, value] of Object.entries(expected)) {
    if (write && entry[field] === undefined) entry[field] = value;
    if (entry[field] === value) continue;
    wrong++;
    console.error(`${name}: ${field} is ${JSON.stringify(entry[field])} in the file, ${JSON.stringify(value)} here`);
  }
}

for (const vector of vectors.vectors) {
  agree(vector.name, vector, {
    canonical: canonical(read(Buffer.from(vector.arguments))),
    fingerprint: fingerprint(vector),
  });
}
for (const pair of vectors.pairs) {
  const [left, right] = [pair.left, pair.right].map((text) => canonical(read(Buffer.from(text))));
  agree(pair.name, pair, { same: left === right });
}
for (const refusal of vectors.refusals) agree(refusal.name, refusal, refusalOf(bytesOf(refusal)));

if (write) {
  const lines = (entries) => "[\n" + entries.map((entry) => "    " + JSON.stringify(entry)).join(",\n") + "\n  ]";
  const body = Object.entries(vectors)
    .map(([name, part]) => `  ${JSON.stringify(name)}: ${Array.isArray(part) ? lines(part) : JSON.stringify(part)}`)
    .join(",\n");
  writeFileSync(file, `{\n${body}\n}\n`);
}
const counts = `${vectors.vectors.length} vectors, ${vectors.pairs.length} pairs, ${vectors.refusals.length} refusals`;
console.log(wrong === 0 ? `PASS: ${counts}` : `FAIL: ${wrong} of ${counts}`);
process.exitCode = wrong === 0 ? 0 : 1;
