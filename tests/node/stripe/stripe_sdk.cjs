// Runs a plan with Stripe's own Node client and prints what its application sees.
//
// The plan is JSON on standard input: {"calls": [{"amount", "key"?, "token"?}], "retries"?, "patience"? (seconds)}. The client is
// reached at BASE, which must be a port of its own, with TOKEN as its API key. One line of JSON per call, as soon as it is known.

const path = require("node:path");
const fs = require("node:fs");

// The script lies in the repository, and what it needs where `cargo xtask test` has put it.
const Loaded = require(path.join(process.env.PACKAGES, "node_modules", "stripe"));
const Stripe = Loaded.default ?? Loaded;

const plan = JSON.parse(fs.readFileSync(0, "utf8"));
const base = new URL(process.env.BASE);

function client(token) {
  const stripe = new Stripe(token, {
    host: base.hostname,
    port: base.port,
    protocol: "http",
    maxNetworkRetries: plan.retries ?? 2,
    timeout: (plan.patience ?? 60) * 1000,
    telemetry: false,
  });
  return stripe;
}

async function one(call) {
  const stripe = client(call.token ?? process.env.TOKEN);
  let requests = 0;
  stripe.on("request", () => {
    requests += 1;
  });
  const options = call.key === undefined ? {} : { idempotencyKey: call.key };
  try {
    const made = await stripe.paymentIntents.create({ amount: call.amount, currency: "eur", confirm: true }, options);
    const replayed = made.lastResponse.headers["idempotent-replayed"];
    return { id: made.id, amount: made.amount, replayed, requests };
  } catch (error) {
    return {
      error: error.type,
      status: error.statusCode,
      code: error.code,
      retry: error.headers?.["stripe-should-retry"],
      message: error.message,
      requests,
    };
  }
}

async function main() {
  for (const call of plan.calls) {
    process.stdout.write(`${JSON.stringify(await one(call))}\n`);
  }
}

main();
