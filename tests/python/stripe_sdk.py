"""Runs a plan with Stripe's own Python client and prints what its application sees.

The plan is JSON on standard input: {"calls": [{"amount", "key"?, "token"?}], "retries"?, "patience"? (seconds)}. The client is reached
at BASE with TOKEN as its API key. One line of JSON per call, as soon as it is known, so that an application which is killed has said how far it came.
"""

import json
import os
import sys

import stripe


class Counted(stripe.RequestsClient):
    """Stripe's own client for HTTP; it counts the requests that the retry loop around it makes."""

    sent = 0

    def request(self, *arguments, **named):
        self.sent += 1
        return super().request(*arguments, **named)


def one(client, call):
    options = {"idempotency_key": call["key"]} if "key" in call else {}
    if "token" in call:
        options["api_key"] = call["token"]
    before = client.sent
    try:
        made = stripe.PaymentIntent.create(amount=call["amount"], currency="eur", confirm=True, **options)
        headers = made.last_response.headers
        seen = {"id": made.id, "amount": made.amount, "replayed": headers.get("idempotent-replayed")}
    except stripe.StripeError as error:
        headers = error.headers or {}
        seen = {
            "error": type(error).__name__,
            "status": error.http_status,
            "code": error.error.code if error.error else error.code,
            "retry": headers.get("stripe-should-retry"),
            "message": str(error.user_message),
        }
    return {**seen, "requests": client.sent - before}


def main():
    plan = json.load(sys.stdin)
    client = Counted(timeout=plan.get("patience", 60))
    stripe.default_http_client = client
    stripe.api_key = os.environ["TOKEN"]
    stripe.api_base = os.environ["BASE"]
    stripe.max_network_retries = plan.get("retries", 2)
    stripe.enable_telemetry = False
    for call in plan["calls"]:
        print(json.dumps(one(client, call)), flush=True)


main()
