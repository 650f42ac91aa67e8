// Stands between a client that can send no headers of its own and the gateway: puts in the credential, and a new operation id for each
// POST, as an application before the gateway does. Everything else goes through as it came, in both directions.
//
// GATEWAY is the gateway's address, TOKEN the credential. Prints its own address when it listens.

"use strict";

const http = require("node:http");
const { randomUUID } = require("node:crypto");

const gateway = new URL(process.env.GATEWAY);
const agent = new http.Agent({ keepAlive: true });

http
  .createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${process.env.TOKEN}` };
    if (incoming.method === "POST") headers["idempotency-key"] = randomUUID();
    const onward = http.request(
      { agent, host: gateway.hostname, port: gateway.port, path: incoming.url, method: incoming.method, headers },
      (response) => {
        outgoing.writeHead(response.statusCode, response.headers);
        outgoing.flushHeaders();
        response.pipe(outgoing);
      },
    );
    onward.on("error", () => outgoing.destroy());
    // Whoever hangs up here has hung up there, too.
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  })
  .listen(0, "127.0.0.1", function () {
    console.log(`The way to the gateway listens on http://127.0.0.1:${this.address().port}/mcp`);
  });
