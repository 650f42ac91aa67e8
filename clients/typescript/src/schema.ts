/**
 * Schemas of arguments, of zod or of any other library that speaks Standard Schema (https://standardschema.dev): they are read
 * by that interface alone, so that none of them is a dependency.
 */

import { InvalidArguments } from "./errors.js";

/** A schema that parses, from what a caller gives to what the function gets. */
export interface Schema<In = unknown, Out = unknown> {
  readonly "~standard": {
    readonly validate: (value: unknown) => Parsed<Out> | Promise<Parsed<Out>>;
    readonly types?: { readonly input: In; readonly output: Out } | undefined;
  };
}

/** What a caller gives. */
export type InputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["input"];

/** What the function gets: defaults are in it. */
export type OutputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["output"];

type Parsed<Out> = { readonly value: Out; readonly issues?: undefined } | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A tool as a model is told of it. */
export interface Definition {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of what a caller gives. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

/**
 * The arguments as the schema reads them.
 *
 * @throws InvalidArguments with every place that does not match. Nothing was claimed.
 */
export async function parse(tool: string, schema: Schema, args: unknown): Promise<unknown> {
  const parsed = await schema["~standard"].validate(args);
  if (parsed.issues) {
    throw new InvalidArguments(
      tool,
      parsed.issues.map(({ message, path = [] }) => ({ message, path: pointer(path) })),
    );
  }
  return parsed.value;
}

/** The schema as JSON Schema, for a model. */
export function jsonSchemaOf(tool: string, schema: Schema | undefined): Readonly<Record<string, unknown>> {
  if (!schema) throw new TypeError(`"${tool}" has no schema; give its operation an \`input\`, such as a z.object of zod`);
  const { jsonSchema } = schema["~standard"] as { jsonSchema?: { input(options: { target: string }): object } };
  if (!jsonSchema) {
    throw new TypeError(`the schema of "${tool}" cannot be written as JSON Schema; zod can from 4.2 on`);
  }
  return jsonSchema.input({ target: "draft-2020-12" }) as Record<string, unknown>;
}

function pointer(path: NonNullable<Issue["path"]>): string {
  const tokens = path.map((part) => String(typeof part === "object" ? part.key : part));
  return tokens.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
