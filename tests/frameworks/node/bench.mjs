/**
 * A gateway before a sandbox, a wire between that loses replies, and the examples: what the tests of Node's frameworks share.
 *
 * `ONCEWARD_BIN` names the gateway's binary, `ONCEWARD_NODE_INTEGRATIONS` the folder with the frameworks (else
 * target/node/integrations). The client is the built one of this checkout. Effects are counted at the sandbox, never in an answer.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, realpath, rm, symlink, writeFile } from "node:fs/promises";
import http from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PATIENCE_MS = 60_000;

const configuration = (sandbox) => `
version = 1
ledger = "sqlite:ledger.db"
tenant = "acme"
listen = "127.0.0.1:0"

[destination.helpdesk]
url = "${sandbox}"
contract = "none"
[destination.helpdesk.tool.create_ticket]
title = "Ticket: {/title}"
description = "Opens a ticket at the helpdesk."
schema = { type = "object", required = ["title", "body"], additionalProperties = false, properties = { title = { type = "string" }, body = { type = "string" } } }
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"
refused_if = { status = [422] }
`;

/** What `look` gives, as soon as it gives something. */
async function until(what, look) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await pause(20)) {
    const found = await look();
    if (found) return found;
  }
  assert.fail(`not within ${PATIENCE_MS} ms: ${what}`);
}

/** A program with what it says. */
class Program {
  said = "";

  constructor(command, words, cwd, env) {
    this.process = spawn(command, words, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.process.stdout, this.process.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (this.said += text));
    }
    this.ended = once(this.process, "close").then(([code, signal]) => (this.end = { code, signal }));
  }

  says(pattern) {
    return until(`${pattern}`, () => {
      assert(!this.end, `it ended: ${this.said}`);
      return this.said.match(pattern)?.[0];
    });
  }

  async kill() {
    if (!this.end) this.process.kill("SIGKILL");
    return this.ended;
  }
}

export class Bench {
  /** Everything in one folder of its own: the ledger, and the examples beside the packages that they import. */
  static async start() {
    const bench = new Bench();
    const binary = process.env.ONCEWARD_BIN;
    assert(binary, "ONCEWARD_BIN names the gateway's binary");
    bench.folder = await realpath(await mkdtemp(join(tmpdir(), "onceward-frameworks-")));
    await layOut(bench.folder);
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ONCEWARD_")));
    bench.programs = [new Program(binary, ["sandbox", "--listen", "127.0.0.1:0", "--db", "sandbox.db"], bench.folder, env)];
    bench.sandbox = await bench.programs[0].says(/http:\/\/127\.0\.0\.1:\d+/);
    await writeFile(join(bench.folder, "onceward.toml"), configuration(bench.sandbox));
    const gateway = new Program(binary, ["serve"], bench.folder, env);
    bench.programs.push(gateway);
    bench.url = await gateway.says(/http:\/\/127\.0\.0\.1:\d+/);
    bench.agent = await gateway.says(/ow_agent_\S+/);
    bench.operator = await gateway.says(/ow_operator_\S+/);
    return bench;
  }

  async end() {
    for (const program of this.programs) await program.kill();
    await rm(this.folder, { recursive: true });
  }

  /** The sandbox as it was at the start. The ledger keeps what it knows. */
  clear() {
    return ask(`${this.sandbox}/admin/reset`, {});
  }

  /** The sandbox has the effect of the next ticket, and cuts the connection. */
  breakNextTicket() {
    return ask(`${this.sandbox}/admin/faults`, [{ match: { path: "/tickets", nth: 1 }, fault: "lose_reply_after_commit" }]);
  }

  /** How many tickets there are at the sandbox, and how many requests tried to make one. */
  async tickets() {
    const { count, requests } = await ask(`${this.sandbox}/admin/effects?resource=tickets`);
    return { count, requests };
  }

  /** A person looked at the destination, and records that the one unknown ticket is there. */
  async settleUnknown(receipt) {
    const { operations } = await ask(`${this.url}/v1/operations?state=unknown`, undefined, this.operator);
    assert.equal(operations.length, 1, "one operation is unknown");
    await ask(
      `${this.url}/v1/operations/${operations[0].operation_id}/decisions`,
      {
        choice: "confirmed_done",
        reason: "seen_at_destination",
        evidence: "it is in the helpdesk's list",
        expected: operations[0].version,
        receipt: { status: 201, body: receipt },
      },
      this.operator,
    );
  }

  /** A module of an example. */
  example(name) {
    return import(pathToFileURL(join(this.folder, name)).href);
  }

  /** A package, as an application beside the examples imports it. */
  import(name) {
    return import(pathToFileURL(createRequire(join(this.folder, "beside")).resolve(name)).href);
  }

  /** A file of a run that has not begun. */
  newRun() {
    return join(this.folder, `run-${crypto.randomUUID()}.json`);
  }

  /**
   * Runs an example as a process of its own, kills it when its ticket is there and it has not heard of it, and runs it again to its
   * end. What the second process printed.
   */
  async killedBetweenEffectAndCheckpoint(example) {
    const folder = join(this.folder, `killed-${crypto.randomUUID()}`);
    await mkdir(folder);
    const wire = await Wire.before(this.url);
    try {
      wire.hold();
      const victim = this.#start(example, folder, wire.url);
      await until("the gateway would have replied", () => wire.held || victim.end);
      assert(!victim.end, victim.said);
      assert.deepEqual(await victim.kill(), { code: null, signal: "SIGKILL" });
    } finally {
      await wire.close();
    }
    assert.deepEqual(await this.tickets(), { count: 1, requests: 1 }, "the effect is there");
    const second = this.#start(example, folder, this.url);
    assert.deepEqual(await second.ended, { code: 0, signal: null }, second.said);
    return second.said.trim().split("\n");
  }

  #start(example, cwd, url) {
    const own = { ONCEWARD_URL: url, ONCEWARD_TOKEN: this.agent, HELPDESK_URL: this.sandbox };
    return new Program(process.execPath, [join(this.folder, example)], cwd, { ...process.env, ...own });
  }
}

/** Makes `folder` one whose files can import the packages, the client as it is published, and the examples beside them. */
export async function layOut(folder) {
  const packages = join(process.env.ONCEWARD_NODE_INTEGRATIONS ?? join(ROOT, "target/node/integrations"), "node_modules");
  const modules = join(folder, "node_modules");
  await mkdir(modules);
  for (const name of await readdir(packages)) await symlink(join(packages, name), join(modules, name));
  await symlink(join(ROOT, "clients/typescript"), join(modules, "onceward"));
  for (const example of ["ai-sdk", "mcp-typescript"]) await cp(join(ROOT, "examples", example), join(folder, example), { recursive: true });
}

/**
 * An address before the gateway that passes everything on, and loses replies to calls and settlements when told to. A reply is
 * lost after the gateway has given it: the effect is there, and nobody hears of it.
 */
export class Wire {
  lost = 0;
  held = false;
  #lose = 0;
  #status = null;
  #hold = false;

  static async before(gateway) {
    const wire = new Wire();
    wire.server = http.createServer((request, response) => wire.#pass(gateway, request, response));
    wire.server.listen(0, "127.0.0.1");
    await once(wire.server, "listening");
    wire.url = `http://127.0.0.1:${wire.server.address().port}`;
    return wire;
  }

  /** The next replies to calls are lost: their connections break, or a proxy says so with a status. */
  lose(times, status = null) {
    this.#lose = times;
    this.#status = status;
  }

  /** The next reply to a call never comes, and the connection stays. `held` says when it would have come. */
  hold() {
    this.#hold = true;
  }

  async close() {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, "close");
  }

  async #pass(gateway, request, response) {
    const body = Buffer.concat(await request.toArray());
    const passed = http.request(gateway + request.url, { method: request.method, headers: request.headers, agent: false });
    passed.on("error", () => response.destroy());
    passed.end(body);
    passed.on("response", async (answer) => {
      if (!isCall(request, body) || (this.#lose === 0 && !this.#hold)) {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
        return;
      }
      await answer.toArray().catch(() => []); // the whole of it, so that all is done that it tells
      if (this.#hold) {
        this.#hold = false;
        this.held = true;
        return;
      }
      this.#lose--;
      this.lost++;
      if (this.#status === null) request.socket.destroy();
      else response.writeHead(this.#status).end();
    });
  }
}

function isCall({ method, url }, body) {
  return method === "POST" && (/\/(calls|settlement)$/.test(url) || body.includes('"tools/call"'));
}

/** Prints what the model saw, one line for each result of a tool, and gives it back. */
export function saw(framework, example, texts) {
  for (const text of texts) console.log(`model saw [${framework}/${example}]: ${text.replaceAll(/\s+/g, " ")}`);
  return texts;
}

async function ask(url, body, token) {
  const headers = { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(url, { headers, ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }) });
  const text = await answer.text();
  assert(answer.ok, `${url}: ${answer.status} ${text}`);
  return JSON.parse(text || "{}");
}
