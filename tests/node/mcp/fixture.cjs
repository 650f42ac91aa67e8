// A server with the tools, resources and prompts that the MCP conformance suite calls, made of the official SDK. It serves both eras
// at /mcp: 2026-07-28 without sessions, the session era with them. Prints its address when it listens.
//
// NODE_HOME is the folder whose node_modules has the SDK.

"use strict";

const http = require("node:http");
const { randomUUID } = require("node:crypto");
const { Readable } = require("node:stream");
const { createRequire } = require("node:module");

const sdk = createRequire(`${process.env.NODE_HOME}/package.json`)("@modelcontextprotocol/server");

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const state = sdk.createRequestStateCodec({ key: randomUUID() + randomUUID() });
const NOTHING = { type: "object", properties: {} };
const text = (words) => ({ type: "text", text: words });
const image = { type: "image", data: PIXEL, mimeType: "image/png" };
const says = (...content) => ({ content });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const resource = (uri, mimeType, words) => ({ type: "resource", resource: { uri, mimeType, text: words } });

// ---- What a tool may ask of its client ----

const form = (message, properties) => ({
  mode: "form",
  message,
  requestedSchema: { type: "object", properties, required: Object.keys(properties) },
});
const name = () => sdk.inputRequired.elicit(form("What is your name?", { name: { type: "string" } }));
const confirm = () => sdk.inputRequired.elicit(form("Please confirm", { ok: { type: "boolean" } }));
const sample = (words) =>
  sdk.inputRequired.createMessage({ messages: [{ role: "user", content: text(words) }], maxTokens: 100 });
const accepted = (responses, key) => sdk.acceptedContent(responses, key);

const DEFAULTS = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
};
const titled = (names) => names.map((title, at) => ({ const: `value${at + 1}`, title }));
const OPTIONS = ["option1", "option2", "option3"];
const ENUMS = {
  untitledSingle: { type: "string", enum: OPTIONS },
  titledSingle: { type: "string", oneOf: titled(["First Option", "Second Option", "Third Option"]) },
  legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
  untitledMulti: { type: "array", minItems: 1, maxItems: 3, items: { type: "string", enum: OPTIONS } },
  titledMulti: { type: "array", minItems: 1, maxItems: 3, items: { anyOf: titled(["First Choice", "Second Choice", "Third Choice"]) } },
};
// Every round after the first has what was asked for in `inputResponses`.
const rounds = (ask, answer) => async (given, { mcpReq }) => {
  const responses = mcpReq.inputResponses ?? {};
  return answer(responses, mcpReq) ?? sdk.inputRequired(await ask(mcpReq));
};
const filled = (properties) =>
  rounds(
    () => ({ inputRequests: { filled: sdk.inputRequired.elicit({ ...form("Please fill in", properties), requestedSchema: { type: "object", properties } }) } }),
    ({ filled }) => filled && says(text(`Elicitation completed: action=${filled.action}, content=${JSON.stringify(filled.content ?? {})}`)),
  );
const sealed = async (inputRequests, what = {}) => ({ inputRequests, requestState: await state.mint(what) });

async function multiRound(_, { mcpReq }) {
  const before = mcpReq.requestState() ?? { round: 0 };
  const named = accepted(mcpReq.inputResponses, "step1");
  const colour = accepted(mcpReq.inputResponses, "step2");
  if (before.round === 2 && colour) return says(text(`${before.name} likes ${colour.color}`));
  if (before.round === 1 && named) {
    const ask = sdk.inputRequired.elicit(form("Step 2: What is your favorite color?", { color: { type: "string" } }));
    return sdk.inputRequired(await sealed({ step2: ask }, { round: 2, name: named.name }));
  }
  const ask = sdk.inputRequired.elicit(form("Step 1: What is your name?", { name: { type: "string" } }));
  return sdk.inputRequired(await sealed({ step1: ask }, { round: 1 }));
}

// ---- Tools: [schema, function of arguments and context] ----

const TOOLS = {
  test_simple_text: [NOTHING, () => says(text("This is a simple text response for testing."))],
  test_image_content: [NOTHING, () => says(image)],
  test_audio_content: [NOTHING, () => says({ type: "audio", data: SILENCE, mimeType: "audio/wav" })],
  test_embedded_resource: [NOTHING, () => says(resource("test://embedded-resource", "text/plain", "This is an embedded resource content."))],
  test_multiple_content_types: [
    NOTHING,
    () => says(text("Multiple content types test:"), image, resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')),
  ],
  test_tool_with_logging: [
    NOTHING,
    async (_, { mcpReq }) => {
      for (const step of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await mcpReq.log("info", step, "fixture");
        await pause(50);
      }
      return says(text("Tool with logging executed successfully"));
    },
  ],
  test_logging_tool: [
    NOTHING,
    async (_, { mcpReq }) => {
      await mcpReq.log("info", "heard only by who asked for it", "fixture");
      return says(text("logged"));
    },
  ],
  test_tool_with_progress: [
    NOTHING,
    async (_, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken;
      for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
        const params = { progressToken, progress, total: 100, message: `Completed step ${progress} of 100` };
        await mcpReq.notify({ method: "notifications/progress", params });
        await pause(50);
      }
      return says(text(String(progressToken)));
    },
  ],
  test_error_handling: [NOTHING, () => ({ ...says(text("This tool intentionally returns an error for testing")), isError: true })],
  test_sampling: [
    { type: "object", properties: { prompt: { type: "string" } }, required: ["prompt"] },
    ({ prompt }, context) =>
      rounds(
        () => ({ inputRequests: { sampled: sample(prompt) } }),
        ({ sampled }) => sampled && says(text(`LLM response: ${sampled.content.text}`)),
      )(prompt, context),
  ],
  test_elicitation: [
    { type: "object", properties: { message: { type: "string" } }, required: ["message"] },
    ({ message }, context) =>
      rounds(
        () => ({ inputRequests: { user: sdk.inputRequired.elicit(form(message, { username: { type: "string" }, email: { type: "string" } })) } }),
        ({ user }) => user && says(text(`User response: action=${user.action}, content=${JSON.stringify(user.content ?? {})}`)),
      )(message, context),
  ],
  test_elicitation_sep1034_defaults: [NOTHING, filled(DEFAULTS)],
  test_elicitation_sep1330_enums: [NOTHING, filled(ENUMS)],
  json_schema_2020_12_tool: [
    {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
      properties: {
        name: { type: "string" },
        address: { $ref: "#/$defs/address" },
        contactMethod: { type: "string", enum: ["phone", "email"] },
        phone: { type: "string" },
        email: { type: "string" },
      },
      allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
      if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
      then: { required: ["phone"] },
      else: { required: ["email"] },
      additionalProperties: false,
    },
    (given) => says(text(JSON.stringify(given))),
  ],
  test_header_argument: [
    { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } }, required: ["region"] },
    ({ region }) => says(text(region)),
  ],
  test_missing_capability: [NOTHING, rounds(() => ({ inputRequests: { question: sample("Are you there?") } }), () => undefined)],
  test_streaming_elicitation: [
    NOTHING,
    rounds(() => ({ inputRequests: { user_name: name() } }), ({ user_name }) => user_name && says(text("heard"))),
  ],
  test_trigger_tool_change: [NOTHING, () => (modern.notify.toolsChanged(), says(text("changed")))],
  test_trigger_prompt_change: [NOTHING, () => (modern.notify.promptsChanged(), says(text("changed")))],
  test_input_required_result_elicitation: [
    NOTHING,
    rounds(
      () => ({ inputRequests: { user_name: name() } }),
      (given) => accepted(given, "user_name")?.name && says(text(`Hello, ${accepted(given, "user_name").name}!`)),
    ),
  ],
  test_input_required_result_sampling: [
    NOTHING,
    rounds(
      () => ({ inputRequests: { capital_question: sample("What is the capital of France?") } }),
      ({ capital_question }) => capital_question && says(text(String(capital_question.content?.text))),
    ),
  ],
  test_input_required_result_list_roots: [
    NOTHING,
    rounds(
      () => ({ inputRequests: { client_roots: sdk.inputRequired.listRoots() } }),
      ({ client_roots }) => client_roots && says(text(client_roots.roots.map(({ uri }) => uri).join(" "))),
    ),
  ],
  test_input_required_result_request_state: [
    NOTHING,
    rounds(
      () => sealed({ confirm: confirm() }),
      (given, mcpReq) => mcpReq.requestState() && accepted(given, "confirm")?.ok && says(text("state-ok")),
    ),
  ],
  test_input_required_result_tampered_state: [
    NOTHING,
    rounds(() => sealed({ confirm: confirm() }), (given, mcpReq) => mcpReq.requestState() && says(text("state-ok"))),
  ],
  test_input_required_result_multiple_inputs: [
    NOTHING,
    rounds(
      () => sealed({ user_name: name(), greeting: sample("Generate a greeting"), client_roots: sdk.inputRequired.listRoots() }),
      ({ user_name, greeting, client_roots }, mcpReq) =>
        mcpReq.requestState() && user_name && greeting && client_roots && says(text(`${user_name.content?.name}, ${greeting.content?.text}`)),
    ),
  ],
  test_input_required_result_multi_round: [NOTHING, multiRound],
  test_input_required_result_capabilities: [
    NOTHING,
    rounds(
      ({ envelope }) => {
        const can = envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? {};
        const all = { sampling: ["question", sample("Hello?")], elicitation: ["user_name", name()] };
        return { inputRequests: Object.fromEntries(Object.keys(can).filter((key) => all[key]).map((key) => all[key])) };
      },
      (given) => (Object.keys(given).length > 0 ? says(text("heard")) : undefined),
    ),
  ],
};

// ---- Resources and prompts ----

const RESOURCES = {
  "test://static-text": { name: "static-text", mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { name: "static-binary", mimeType: "image/png", blob: PIXEL },
  "test://watched-resource": { name: "watched-resource", mimeType: "text/plain", text: "Watched resource content" },
};

function read({ params: { uri } }) {
  const known = RESOURCES[uri];
  if (known) {
    const { name, ...contents } = known;
    return { contents: [{ uri, ...contents }] };
  }
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id === undefined) throw new sdk.ResourceNotFoundError(uri);
  return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }] };
}

const user = (content) => ({ role: "user", content });
const argument = (name) => ({ name, description: `The argument ${name}.`, required: true });
const PROMPTS = {
  test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_arguments: [
    [argument("arg1"), argument("arg2")],
    ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  ],
  test_prompt_with_embedded_resource: [
    [argument("resourceUri")],
    ({ resourceUri }) => [
      user(resource(resourceUri, "text/plain", "Embedded resource content for testing.")),
      user(text("Please process the embedded resource above.")),
    ],
  ],
  test_prompt_with_image: [[], () => [user(image), user(text("Please analyze the image above."))]],
  test_input_required_result_prompt: [[], undefined],
};

const prompted = rounds(
  () => ({ inputRequests: { user_context: sdk.inputRequired.elicit(form("What context should the prompt use?", { context: { type: "string" } })) } }),
  (given) => accepted(given, "user_context") && { messages: [user(text(`Prompt with context: ${accepted(given, "user_context").context}`))] },
);

// ---- The server ----

const unknown = (what) => new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, `Unknown ${what}`);

function server() {
  const offers = {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
    logging: {},
    completions: {},
  };
  const hints = { ttlMs: 60000, cacheScope: "private" };
  const cacheHints = Object.fromEntries(
    ["tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "server/discover"].map((m) => [m, hints]),
  );
  const it = new sdk.Server(
    { name: "conformance-fixture", version: "1.0.0" },
    { capabilities: offers, cacheHints, requestState: { verify: state.verify } },
  );
  const on = (method, handler) => it.setRequestHandler(method, handler);
  on("tools/list", () => ({
    tools: Object.entries(TOOLS).map(([name, [inputSchema]]) => ({ name, description: `The tool ${name}.`, inputSchema })),
  }));
  on("tools/call", async ({ params }, context) => {
    const tool = TOOLS[params.name];
    if (!tool) throw unknown(`tool: ${params.name}`);
    return tool[1](params.arguments ?? {}, context);
  });
  on("resources/list", () => ({
    resources: Object.entries(RESOURCES).map(([uri, { name, mimeType }]) => ({ uri, name, mimeType, description: `The resource ${name}.` })),
  }));
  on("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }],
  }));
  on("resources/read", read);
  on("resources/subscribe", () => ({}));
  on("resources/unsubscribe", () => ({}));
  on("prompts/list", () => ({
    prompts: Object.entries(PROMPTS).map(([name, [args]]) => ({ name, description: `The prompt ${name}.`, arguments: args })),
  }));
  on("prompts/get", async ({ params }, context) => {
    const prompt = PROMPTS[params.name];
    if (!prompt) throw unknown(`prompt: ${params.name}`);
    return prompt[1] ? { messages: prompt[1](params.arguments ?? {}) } : prompted(params, context);
  });
  on("completion/complete", ({ params }) => {
    const values = ["paris", "park", "party"].filter((word) => word.startsWith(params.argument.value));
    return { completion: { values, total: values.length, hasMore: false } };
  });
  return it;
}

const modern = sdk.createMcpHandler(server, { legacy: "reject" });
const sessions = new Map();

async function legacy(request) {
  const session = request.headers.get("mcp-session-id");
  if (sessions.has(session)) return sessions.get(session).handleRequest(request);
  if (session !== null) return new Response("no such session", { status: 404 });
  const transport = new sdk.WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await server().connect(transport);
  return transport.handleRequest(request);
}

async function answer(request) {
  const refused =
    sdk.hostHeaderValidationResponse(request, sdk.localhostAllowedHostnames()) ??
    sdk.originValidationResponse(request, sdk.localhostAllowedOrigins());
  if (refused) return refused;
  return (await sdk.isLegacyRequest(request)) ? legacy(request) : modern.fetch(request);
}

http
  .createServer(async (incoming, outgoing) => {
    const body = incoming.method === "POST" ? { body: Readable.toWeb(incoming), duplex: "half" } : {};
    const gone = new AbortController();
    outgoing.on("close", () => gone.abort());
    try {
      const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
        method: incoming.method,
        headers: Object.entries(incoming.headers).flatMap(([key, value]) => [value].flat().map((one) => [key, one])),
        signal: gone.signal,
        ...body,
      });
      const response = await answer(request);
      outgoing.writeHead(response.status, Object.fromEntries(response.headers));
      outgoing.flushHeaders();
      if (response.body) for await (const part of response.body) outgoing.write(part);
      outgoing.end();
    } catch (error) {
      if (!gone.signal.aborted) console.error(error);
      outgoing.destroy();
    }
  })
  .listen(0, "127.0.0.1", function () {
    console.log(`The fixture listens on http://127.0.0.1:${this.address().port}/mcp`);
  });
