/** A real gateway and a real sandbox behind it, each in its own process, in a folder of their own. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

import { Onceward } from "../src/index.js";

/** What a test waits for comes within this, or it failed. */
const DEADLINE_MS = 15_000;

const CONFIG = (sandbox: string): string => `
version = 1
ledger = "sqlite:onceward.db"
listen = "127.0.0.1:0"
tenant = "acme"

[destination.sandbox]
url = "${sandbox}"
contract = "none"

[destination.sandbox.tool.create_ticket]
title = "Ticket: {/title}"
request = { method = "POST", path = "/tickets", body = "arguments" }
schema = { type = "object", required = ["title", "body"] }
effect_id = "/id"
refused_if = { status = [422] }

[destination.sandbox.tool.approved_ticket]
approval = "required"
request = { method = "POST", path = "/tickets", body = "arguments" }

[destination.sandbox.tool.charge_payment]
request = { method = "POST", path = "/payments", body = "arguments" }
refused_if = { status = [402, 422] }

[destination.sandbox.tool.get_ticket]
read = true
request = { method = "GET", path = "/tickets/{/id}" }

[destination.nowhere]
url = "http://127.0.0.1:9"
contract = "none"

[destination.nowhere.tool.send_nowhere]
request = { method = "POST", path = "/", body = "arguments" }
retry = { attempts_max = 1 }
`;

export class Bench {
  readonly #folder: string;
  readonly #processes: ChildProcess[] = [];
  sandbox = "";
  gateway = "";
  operatorToken = "";
  /** Of the role `application`: calls, reads, looks up. */
  token = "";

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async start(): Promise<Bench> {
    const bench = new Bench(await mkdtemp(join(tmpdir(), "onceward-")));
    try {
      bench.sandbox = address(await bench.#run(["sandbox", "--listen", "127.0.0.1:0"], 1));
      await writeFile(join(bench.#folder, "onceward.toml"), CONFIG(bench.sandbox));
      const lines = await bench.#run(["serve"], 4);
      bench.gateway = address(lines);
      bench.operatorToken = lines.match(/ow_operator_\S+/)?.[0] ?? "";
      const made = await bench.operator("/v1/credentials", { principal: "app", role: "application", tools: ["*"] });
      bench.token = String(made["token"]);
      return bench;
    } catch (error) {
      await bench.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    for (const process of this.#processes) {
      if (process.exitCode !== null || process.signalCode !== null) continue;
      process.kill("SIGKILL");
      await once(process, "exit");
    }
    await rm(this.#folder, { recursive: true });
  }

  /** A client of its own. */
  client(): Onceward {
    return new Onceward({ url: this.gateway, token: this.token });
  }

  /** A request as a person with authority. */
  async operator(path: string, body?: object): Promise<Record<string, unknown>> {
    return json(this.gateway + path, { headers: { authorization: `Bearer ${this.operatorToken}` } }, body);
  }

  /** Of which operations lookups are due by now, of whatever tool. */
  async due(): Promise<string[]> {
    const { lookups } = await this.operator("/v1/lookups/due");
    return (lookups as { operation_id: string }[]).map((due) => due.operation_id);
  }

  /** Programs the next request to a path of the sandbox. */
  async fault(path: string, fault: string): Promise<void> {
    await json(`${this.sandbox}/admin/faults`, {}, [{ match: { path, nth: 1 }, fault }]);
  }

  /** How many effects of a kind the sandbox has, by its own count. */
  async effects(resource: string): Promise<number> {
    const { count } = await json(`${this.sandbox}/admin/effects?resource=${resource}`);
    return Number(count);
  }

  /** Makes a ticket past the gateway, as an own function does. */
  async ticket(title: string, reference: string | null): Promise<{ id: string }> {
    const made = await json(`${this.sandbox}/tickets`, {}, { title, body: "It burns.", reference });
    return { id: String(made["id"]) };
  }

  async #run(args: string[], lines: number): Promise<string> {
    const binary = process.env["ONCEWARD_BIN"];
    assert(binary, "ONCEWARD_BIN names the gateway's binary");
    const child = spawn(binary, args, { cwd: this.#folder, stdio: ["ignore", "pipe", "ignore"] });
    this.#processes.push(child);
    const read: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      read.push(line);
      if (read.length === lines) break;
    }
    child.stdout.resume();
    return read.join("\n");
  }
}

/** What `look` gives, once it gives something. */
export async function until<T>(what: string, look: () => Promise<T | null | undefined | false>): Promise<T> {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    assert(Date.now() < end, `${what}: not within ${DEADLINE_MS} ms`);
    await pause(20);
  }
}

/** The error of a class that a promise is rejected with. */
export async function thrown<E extends Error>(kind: new (...given: never[]) => E, promise: Promise<unknown>): Promise<E> {
  const error: unknown = await promise.then(
    (value) => assert.fail(`${kind.name} was expected, not ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (error instanceof kind && error.constructor === kind) return error;
  throw error;
}

async function json(url: string, init: RequestInit = {}, body?: object): Promise<Record<string, unknown>> {
  const headers = { ...(init.headers as Record<string, string>), "content-type": "application/json" };
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(url, { ...sent, headers });
  const text = await response.text();
  assert(response.ok, `${url}: ${response.status} ${text}`);
  return JSON.parse(text || "{}") as Record<string, unknown>;
}

function address(lines: string): string {
  const found = lines.match(/http:\/\/[0-9.:]+/)?.[0];
  assert(found, `no address in: ${lines}`);
  return found;
}
