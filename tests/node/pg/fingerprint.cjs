// The fingerprint of docs/fingerprint.md, for a service that calls onceward.begin_operation with a key. Nothing but Node: this
// file can be taken as it is. Arguments are parsed already, so a key that stood twice can no longer be seen; onceward.begin_operation
// is given their text and refuses it.

const { createHash, createHmac } = require("node:crypto");

const DOMAIN = "onceward fingerprint v1\0";
const DEPTH_MAX = 64;

// RFC 8785.
function canonical(value, depth = 1) {
  if (value !== null && typeof value === "object") {
    if (depth > DEPTH_MAX) throw new RangeError("too_deep");
    if (Array.isArray(value)) return `[${value.map((one) => canonical(one, depth + 1)).join(",")}]`;
    const member = (key) => `${string(key)}:${canonical(value[key], depth + 1)}`;
    return `{${Object.keys(value).sort().map(member).join(",")}}`;
  }
  if (typeof value === "string") return string(value);
  if (typeof value === "number" && !(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) throw new RangeError("number_out_of_range");
  return JSON.stringify(value);
}

function string(text) {
  if (!text.isWellFormed()) throw new RangeError("lone_surrogate");
  return JSON.stringify(text);
}

function part(text) {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text)]);
}

// 32 bytes, as a Buffer.
function fingerprint(tool, toolVersion, args, key) {
  const hash = key ? createHmac("sha256", key) : createHash("sha256");
  return hash.update(DOMAIN).update(part(tool)).update(part(toolVersion)).update(part(canonical(args))).digest();
}

// How many of the published vectors it holds to; throws at the first that it does not.
function check(vectors) {
  let held = 0;
  for (const vector of vectors.vectors) {
    const args = JSON.parse(vector.arguments);
    if (vector.free_text.length || vector.volatile.length || args === null || Array.isArray(args) || typeof args !== "object") continue;
    const key = vector.key ? Buffer.from(vector.key, "hex") : undefined;
    if (canonical(args) !== vector.canonical) throw new Error(`canonical form of ${vector.name}`);
    const made = fingerprint(vector.tool, vector.tool_version, args, key).toString("hex");
    if (made !== vector.fingerprint) throw new Error(`fingerprint of ${vector.name}`);
    held += 1;
  }
  return held;
}

module.exports = { canonical, fingerprint, check };
