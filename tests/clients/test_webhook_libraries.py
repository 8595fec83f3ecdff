"""Webhook messages of each signer, verified by each verifier.

Signers: the server, and the libraries `standardwebhooks` of PyPI and npm. Verifiers: both client packages and both
libraries. `make test-clients` installs the library of npm.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from keyrack_client import InvalidSignature, verify
from standardwebhooks import Webhook, WebhookVerificationError

from tests.clients.test_typescript_sources import MODULE
from tests.clients.tools import NODE, TOOLS
from tests.clients.typescript_client import run
from tests.support.people import Person
from tests.support.servers import SCRIPT_DEADLINE, eventually
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-clients` installs the library of npm first")
SECRET = "whsec_" + "c2VjcmV0" * 4
BODY = json.dumps({"type": "assignment.created", "name": "Käfer"}, ensure_ascii=False)
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
# With the library of npm: sign a text, or verify messages
NPM = """
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const { Webhook } = createRequire(process.argv[1] + "/")("standardwebhooks");
const { sign, verify } = JSON.parse(readFileSync(0, "utf8"));
const results = [];
for (const { headers, body, secrets } of verify ?? []) {
  try { results.push(new Webhook(secrets[0]).verify(Buffer.from(body), headers)) }
  catch (error) {
    const isInvalid = error.constructor.name === "WebhookVerificationError";
    results.push(isInvalid ? "InvalidSignature" : String(error));
  }
}
if (sign) results.push(new Webhook(sign.secret).sign(sign.id, new Date(sign.seconds * 1000), sign.body));
console.log(JSON.stringify(results));
"""


def npm(given: dict[str, Any]) -> list[Any]:
    packages = Path(TOOLS or "") / "node_modules"
    command = [NODE, "--input-type=module", "--eval", NPM, "--", packages]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=SCRIPT_DEADLINE)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


Message = dict[str, Any]  # headers, body, secrets


def by_pypi(alice: Person) -> Message:
    now = datetime.now(UTC)
    signature = Webhook(SECRET).sign("m1", now, BODY)
    return {"headers": dict(zip(HEADERS, ("m1", str(int(now.timestamp())), signature), strict=True)), "body": BODY}


def by_npm(alice: Person) -> Message:
    seconds = int(datetime.now(UTC).timestamp())
    (signature,) = npm({"sign": {"id": "m1", "seconds": seconds, "body": BODY, "secret": SECRET}})
    return {"headers": dict(zip(HEADERS, ("m1", str(seconds), signature), strict=True)), "body": BODY}


def by_server(alice: Person) -> Message:
    """A message about a car, as it arrived."""
    with Receiver() as receiver:
        made = alice.put("/webhooks", {"url": receiver.url, "kinds": ["car.*"], "secret": None})
        assert made.status_code == 201, made.text
        alice.car("Käfer")
        eventually(lambda: receiver.got, "the message")
        alice.delete(f"/webhooks/{made.json()['id']}")
        (message, *_) = receiver.got
    headers = {name: message.headers[name] for name in HEADERS}
    return {"headers": headers, "body": message.body.decode(), "secret": made.json()["signingSecret"]}


def python_results(messages: list[Message], check: Callable[[Message], Any]) -> list[Any]:
    results: list[Any] = []
    for message in messages:
        try:
            results.append(check(message))
        except (InvalidSignature, WebhookVerificationError):
            results.append("InvalidSignature")
    return results


@pytest.mark.parametrize("signer", [by_pypi, by_npm, by_server])
def test_all_verifiers_decide_the_same(signer: Callable[[Person], Message], alice: Person) -> None:
    message = signer(alice)
    message = {**message, "secrets": [message.pop("secret", SECRET)]}
    headers, body = message["headers"], message["body"]
    late = str(int(headers["webhook-timestamp"]) - 1_000)
    altered = [
        {**message, "body": body + " "},
        {**message, "body": body.replace("Käfer", "Kafer")},
        {**message, "secrets": ["whsec_" + "b3RoZXIh" * 4]},
        {**message, "headers": headers | {"webhook-id": "m2"}},
        {**message, "headers": headers | {"webhook-timestamp": late}},
        {**message, "headers": headers | {"webhook-signature": "v1,AAAA"}},
        {**message, "headers": {name: text for name, text in headers.items() if name != "webhook-signature"}},
    ]
    messages = [message, *altered]
    expected = [json.loads(body)] + ["InvalidSignature"] * len(altered)
    of_python = python_results(messages, lambda row: verify(row["headers"], row["body"].encode(), *row["secrets"]))
    of_pypi = python_results(messages, lambda row: Webhook(row["secrets"][0]).verify(row["body"], row["headers"]))
    assert of_python == of_pypi == expected
    assert run("verify_lines.ts", MODULE, messages) == npm({"verify": messages}) == expected
