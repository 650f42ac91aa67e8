/**
 * The fingerprint of docs/fingerprint.md: which bytes stand for an intention, and which documents are refused before one exists.
 * Nothing but Node: this file can be taken as it is.
 */

import { createHash, createHmac } from "node:crypto";

const DOMAIN = "onceward fingerprint v1\0";

/** The largest document in bytes, as sent and in canonical form. A gateway keeps no more. */
const BYTES_MAX = 1024 * 1024;

/** Arrays and objects inside each other. Deeper ones exhaust the stack of some reader. */
const DEPTH_MAX = 64;

/** Past this magnitude different numbers become equal. */
const NUMBER_MAX = Number.MAX_SAFE_INTEGER;

/** The longest place in bytes; a longer one is named by the nearest field around it. */
const PLACE_BYTES_MAX = 512;

/** Fields of one tool that are not compared. */
const POINTERS_MAX = 32;

/** Why a document is refused. */
export type Refusal =
  | "not_json"
  | "not_utf8"
  | "trailing_bytes"
  | "duplicate_key"
  | "number_out_of_range"
  | "lone_surrogate"
  | "too_deep"
  | "too_large"
  | "not_an_object";

const WAY_OUT: Record<Refusal, string> = {
  not_json: "it is no JSON; NaN, Infinity, comments, trailing commas, and values that JSON does not have are refused",
  not_utf8: "it is no UTF-8; encode the text as UTF-8",
  trailing_bytes: "something follows the document; send one document and nothing after it",
  duplicate_key: "the key is given twice in one object; keep one of the two",
  number_out_of_range: `the number is beyond ±${NUMBER_MAX}, where different numbers become equal; send it as a string`,
  lone_surrogate: "there is half of a surrogate pair; send the whole pair, or leave the character out",
  too_deep: `it is nested more than ${DEPTH_MAX} levels deep; flatten it`,
  too_large: `it has more than ${BYTES_MAX} bytes; send a reference to the content instead of the content`,
  not_an_object: "the arguments of a tool are an object; send {} for none",
};

/** A document that two readers could understand differently. Nothing was sent, and no operation exists. */
export class InvalidJson extends Error {
  override readonly name = "InvalidJson";
  /** One of the codes of docs/fingerprint.md. */
  readonly code: Refusal;
  /** The field, as a JSON Pointer; of text that cannot be read on, the field that was being read. */
  readonly place: string;

  constructor(code: Refusal, place: string, why = WAY_OUT[code]) {
    super(`${why} (at ${place === "" ? "the top" : place})`);
    this.code = code;
    this.place = place;
  }
}

/** What takes part in a fingerprint beside the arguments. */
export interface FingerprintOptions {
  /** The fingerprint key, 32 to 64 bytes; without one it is a plain hash. */
  readonly key?: Uint8Array;
  /** Pointers to fields whose first text stands: they do not make another intention. */
  readonly freeText?: readonly string[];
  /** Pointers to fields that say nothing about the intention, such as a trace. */
  readonly volatile?: readonly string[];
}

/**
 * What `args` ask of `tool`, as 64 hex digits: equal for two calls that ask for the same thing, different for two that do not.
 *
 * `args` are a text or its bytes, read strictly, or a value that is parsed already; in a value a key that stood twice can no
 * longer be seen.
 *
 * @throws InvalidJson for arguments that are refused, RangeError for a key or a pointer that is none.
 */
export function fingerprint(tool: string, toolVersion: string, args: unknown, options: FingerprintOptions = {}): string {
  const { key, freeText = [], volatile = [] } = options;
  if (key && (key.length < 32 || key.length > 64)) throw new RangeError("a fingerprint key has 32 to 64 bytes");
  const document = strict(args);
  remove(document, [...freeText, ...volatile]);
  const hash = key ? createHmac("sha256", key) : createHash("sha256");
  hash.update(DOMAIN);
  for (const text of [tool, toolVersion, write(document)]) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(text)));
    hash.update(length).update(text);
  }
  return hash.digest("hex");
}

/**
 * The canonical form (RFC 8785) of a document: one text for one meaning.
 *
 * A member that is `undefined` is not given, as everywhere in JavaScript. A value that JSON does not have (a Date, a Map, an object
 * of a class, a bigint) is refused, since it would arrive as something else.
 *
 * @throws InvalidJson
 */
export function canonical(args: unknown): string {
  return write(strict(args));
}

/**
 * The canonical form of a tool's arguments, which are an object.
 *
 * @throws InvalidJson
 */
export function canonicalArguments(args: unknown): string {
  const text = canonical(args);
  if (!text.startsWith("{")) throw new InvalidJson("not_an_object", "");
  return text;
}

type Json = null | boolean | number | string | Json[] | Members;
type Members = { [key: string]: Json };
type Path = (string | number)[];

/** A copy that keeps every rule. Its objects have no prototype, so that no key is special. */
function strict(args: unknown): Json {
  const document = typeof args === "string" ? readText(args) : args instanceof Uint8Array ? readBytes(args) : copy(args, [], 0);
  // The canonical form can be longer than what came: 1e15 has sixteen digits.
  if (Buffer.byteLength(write(document)) > BYTES_MAX) throw new InvalidJson("too_large", "");
  return document;
}

/** Keys in the order of UTF-16 code units, numbers and strings as JavaScript writes them: RFC 8785 asks for just that. */
function write(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${write(value[key] as Json)}`);
  return `{${members.join(",")}}`;
}

function copy(value: unknown, path: Path, depth: number): Json {
  switch (typeof value) {
    case "boolean":
      return value;
    case "string":
      return wellFormed(value, path);
    case "number":
      if (!Number.isFinite(value)) throw refused("not_json", path);
      return inRange(value, path);
    case "object":
      if (value === null) return null;
      if (depth === DEPTH_MAX) throw refused("too_deep", path);
      if (Array.isArray(value)) {
        return Array.from(value, (element, index) => copy(element, [...path, index], depth + 1));
      }
      return copyMembers(value, path, depth + 1);
    default:
      throw refused("not_json", path, `a ${typeof value} is no JSON; send a string or leave it out`);
  }
}

function copyMembers(value: object, path: Path, depth: number): Members {
  const prototype: unknown = Object.getPrototypeOf(value);
  // The prototype of a plain object has none itself, whichever realm it is of.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    const kind = value.constructor?.name ?? "class";
    throw refused("not_json", path, `an object of ${kind} is no JSON; send its plain form`);
  }
  const members = Object.create(null) as Members;
  for (const [key, member] of Object.entries(value)) {
    wellFormed(key, path);
    if (member !== undefined) members[key] = copy(member, [...path, key], depth);
  }
  return members;
}

function wellFormed(text: string, path: Path): string {
  if (!text.isWellFormed()) throw refused("lone_surrogate", path);
  return text;
}

function inRange(number: number, path: Path): number {
  if (!(Math.abs(number) <= NUMBER_MAX)) throw refused("number_out_of_range", path);
  return number;
}

function refused(code: Refusal, path: Path, why?: string): InvalidJson {
  const tokens = path.map((token) => `/${String(token).replaceAll("~", "~0").replaceAll("/", "~1")}`);
  while (Buffer.byteLength(tokens.join("")) > PLACE_BYTES_MAX) tokens.pop();
  return new InvalidJson(code, tokens.join(""), why);
}

/** Members leave their object; elements leave null behind, so that their neighbours keep their places. */
function remove(document: Json, pointers: readonly string[]): void {
  checkPointers(pointers);
  for (const pointer of pointers) {
    const tokens = pointer
      .split("/")
      .slice(1)
      .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = tokens.pop() as string;
    const parent = tokens.reduce<Json | undefined>((inside, token) => child(inside, token), document);
    if (child(parent, last) === undefined) continue;
    if (Array.isArray(parent)) parent[Number(last)] = null;
    else delete (parent as Members)[last];
  }
}

function child(value: Json | undefined, token: string): Json | undefined {
  if (Array.isArray(value)) return /^(0|[1-9][0-9]*)$/.test(token) ? value[Number(token)] : undefined;
  return value !== null && typeof value === "object" ? value[token] : undefined;
}

function checkPointers(pointers: readonly string[]): void {
  if (pointers.length > POINTERS_MAX) throw new RangeError(`at most ${POINTERS_MAX} fields of a tool are not compared`);
  for (const [index, pointer] of pointers.entries()) {
    if (!/^(\/([^~/]|~[01])*)+$/.test(pointer)) {
      throw new RangeError(
        `"${pointer}" is no JSON Pointer to a field; one begins with "/", and ~ is written ~0, / is written ~1`,
      );
    }
    const other = pointers.find((other, at) => at !== index && `${pointer}/`.startsWith(`${other}/`));
    if (other !== undefined) throw new RangeError(`"${pointer}" lies inside "${other}"; name one of the two`);
  }
}

function readText(text: string): Json {
  if (Buffer.byteLength(text) > BYTES_MAX) throw new InvalidJson("too_large", "");
  return new Reader(text).document();
}

function readBytes(bytes: Uint8Array): Json {
  if (bytes.length > BYTES_MAX) throw new InvalidJson("too_large", "");
  const valid = validUpTo(bytes);
  const reader = new Reader(decoded(bytes.subarray(0, valid)));
  if (valid === bytes.length) return reader.document();
  // What is wrong before the first bad byte is named before it.
  try {
    reader.document();
  } catch (error) {
    if (!reader.atEnd()) throw error;
    throw refused("not_utf8", reader.path);
  }
  throw new InvalidJson("not_utf8", "");
}

/** How many bytes are whole characters before the first that is none. */
function validUpTo(bytes: Uint8Array): number {
  const holds = (length: number): boolean => {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  let [good, bad] = [0, bytes.length + 1];
  while (good + 1 < bad) {
    const middle = (good + bad) >> 1;
    if (holds(middle)) good = middle;
    else bad = middle;
  }
  return Buffer.byteLength(decoded(bytes.subarray(0, good)));
}

/** A character that is cut off at the end is left out. */
function decoded(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: true });
}

const SPACE = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const NUMBER_GOES_ON = /[-+.0-9eE]*/y;
const UNIT = /[0-9a-fA-F]{4}/y;
const ESCAPES: Record<string, string> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** Reads one text strictly. After a refusal `path` is where it was. */
class Reader {
  path: Path = [];
  #at = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  atEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  document(): Json {
    const value = this.#value(0);
    this.#take(SPACE);
    if (!this.atEnd()) throw refused("trailing_bytes", []);
    return value;
  }

  #value(depth: number): Json {
    this.#take(SPACE);
    switch (this.#text[this.#at]) {
      case "{":
        return this.#object(depth + 1);
      case "[":
        return this.#array(depth + 1);
      case '"':
        return this.#string();
      case "t":
        this.#expect("true");
        return true;
      case "f":
        this.#expect("false");
        return false;
      case "n":
        this.#expect("null");
        return null;
      default:
        return this.#number();
    }
  }

  #object(depth: number): Members {
    if (depth > DEPTH_MAX) throw this.#refuse("too_deep");
    this.#at++;
    const members = Object.create(null) as Members;
    this.#take(SPACE);
    if (this.#skip("}")) return members;
    do {
      this.#take(SPACE);
      if (this.#text[this.#at] !== '"') throw this.#refuse("not_json");
      const key = this.#string();
      this.path.push(key);
      if (key in members) throw this.#refuse("duplicate_key");
      this.#take(SPACE);
      this.#expect(":");
      members[key] = this.#value(depth);
      this.path.pop();
      this.#take(SPACE);
    } while (this.#skip(","));
    this.#expect("}");
    return members;
  }

  #array(depth: number): Json[] {
    if (depth > DEPTH_MAX) throw this.#refuse("too_deep");
    this.#at++;
    const elements: Json[] = [];
    this.path.push(0);
    this.#take(SPACE);
    if (!this.#skip("]")) {
      for (;;) {
        elements.push(this.#value(depth));
        this.path.splice(-1, 1, elements.length);
        this.#take(SPACE);
        if (this.#skip("]")) break;
        this.#expect(",");
      }
    }
    this.path.pop();
    return elements;
  }

  #string(): string {
    this.#at++;
    let text = "";
    for (;;) {
      text += wellFormed(this.#take(PLAIN), this.path);
      if (this.#skip('"')) return text;
      if (!this.#skip("\\")) throw this.#refuse("not_json");
      text += this.#escape();
    }
  }

  #escape(): string {
    const letter = this.#text[this.#at];
    if (letter === undefined) throw this.#refuse("not_json");
    this.#at++;
    const simple = ESCAPES[letter];
    if (simple !== undefined) return simple;
    if (letter !== "u") throw this.#refuse("not_json");
    const high = this.#unit();
    if (high < 0xd800 || high > 0xdfff) return String.fromCharCode(high);
    if (high > 0xdbff || !this.#text.startsWith("\\u", this.#at)) throw this.#refuse("lone_surrogate");
    this.#at += 2;
    const low = this.#unit();
    if (low < 0xdc00 || low > 0xdfff) throw this.#refuse("lone_surrogate");
    return String.fromCharCode(high, low);
  }

  #unit(): number {
    const digits = this.#take(UNIT);
    if (digits === "") throw this.#refuse("not_json");
    return Number.parseInt(digits, 16);
  }

  #number(): number {
    const digits = this.#take(NUMBER);
    const rest = this.#take(NUMBER_GOES_ON);
    if (digits === "" || rest !== "") throw this.#refuse("not_json");
    return inRange(Number(digits), this.path);
  }

  /** What the pattern matches here, perhaps nothing. */
  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const taken = pattern.exec(this.#text)?.[0] ?? "";
    this.#at += taken.length;
    return taken;
  }

  #skip(letter: string): boolean {
    if (this.#text[this.#at] !== letter) return false;
    this.#at++;
    return true;
  }

  #expect(word: string): void {
    for (const letter of word) {
      if (!this.#skip(letter)) throw this.#refuse("not_json");
    }
  }

  #refuse(code: Refusal): InvalidJson {
    return refused(code, this.path);
  }
}
