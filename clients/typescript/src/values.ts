/** What a function returned, as the JSON that is kept of it. */

/**
 * The JSON of a value. `undefined` is written as null: a function that returns nothing has null kept of it.
 *
 * Dates and other objects that say what they are in JSON (`toJSON`) are written so, and members that are `undefined` are left out,
 * as `JSON.stringify` does. What it would lose without a word is refused instead.
 *
 * @throws TypeError naming the kind of value that JSON does not have.
 */
export function jsonText(value: unknown): string {
  return JSON.stringify(value ?? null, (_key, member: unknown) => {
    const lost = whatIsLost(member);
    if (lost !== null) throw new TypeError(`the value holds ${lost}, which is no JSON; give the function an \`encode\``);
    return member;
  });
}

function whatIsLost(member: unknown): string | null {
  switch (typeof member) {
    case "number":
      return Number.isFinite(member) ? null : String(member);
    case "bigint":
    case "function":
    case "symbol":
      return `a ${typeof member}`;
    case "object":
      return isOpaque(member) ? `a ${member.constructor.name}` : null;
    default:
      return null;
  }
}

/** Objects whose content JSON does not see. */
function isOpaque(member: object | null): member is object {
  return (
    member instanceof Map ||
    member instanceof Set ||
    member instanceof Promise ||
    member instanceof RegExp ||
    member instanceof Error ||
    member instanceof ArrayBuffer ||
    ArrayBuffer.isView(member)
  );
}
