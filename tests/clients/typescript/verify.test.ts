// Signatures of webhooks.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { afterEach, mock, test } from "node:test";
import { InvalidSignature, verify } from "../../../clients/typescript/src/index.ts";

const NOW = 1_790_000_000; // seconds
const SECRET = `whsec_${Buffer.from("the secret of the tests").toString("base64")}`;
const OTHER = `whsec_${Buffer.from("another one").toString("base64")}`;
const BODY = new TextEncoder().encode('{"type": "assignment.created", "name": "Käfer"}');

mock.timers.enable({ apis: ["Date"], now: NOW * 1000 });
afterEach(() => mock.timers.setTime(NOW * 1000));

function signed(secret = SECRET, body: Uint8Array = BODY, at = NOW): Record<string, string> {
  const key = Buffer.from(secret.slice(6), "base64");
  const signature = createHmac("sha256", key).update(`m1.${at}.`).update(body).digest("base64");
  return { "webhook-id": "m1", "webhook-timestamp": String(at), "webhook-signature": `v1,${signature}` };
}

test("a genuine message is parsed", async () => {
  const expected = { type: "assignment.created", name: "Käfer" };
  const headers = signed();
  assert.deepEqual(await verify(headers, BODY, SECRET), expected);
  assert.deepEqual(await verify(new Headers(headers), BODY.buffer.slice(0), SECRET), expected);
  assert.deepEqual(await verify(headers, Buffer.from(BODY), OTHER, SECRET), expected);
  const upper = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]));
  assert.deepEqual(await verify(upper, BODY, SECRET), expected);
});

test("one of several signatures suffices", async () => {
  const headers = signed();
  const foreign = signed(OTHER)["webhook-signature"];
  const all = `v1a,abc v1,%% v1, ${foreign} ${headers["webhook-signature"]}`;
  await verify({ ...headers, "webhook-signature": all }, BODY, SECRET);
});

test("everything else is refused", async () => {
  const headers = signed();
  const changed = Uint8Array.from(BODY);
  changed[3]! ^= 1;
  const cases: [Record<string, string>, Uint8Array, string][] = [
    [headers, changed, SECRET],
    [headers, BODY.subarray(1), SECRET],
    [headers, BODY, OTHER],
    [{ ...headers, "webhook-id": "m2" }, BODY, SECRET],
    [{ ...headers, "webhook-timestamp": String(NOW + 1) }, BODY, SECRET],
    [{ ...headers, "webhook-timestamp": `${NOW}.0` }, BODY, SECRET],
    [{ ...headers, "webhook-signature": headers["webhook-signature"]!.replace("v1,", "v2,") }, BODY, SECRET],
    [{}, BODY, SECRET],
  ];
  for (const [given, body, secret] of cases) await assert.rejects(verify(given, body, secret), InvalidSignature);
});

test("a message is valid for 300 seconds", async () => {
  for (const seconds of [-300, 300]) await verify(signed(SECRET, BODY, NOW + seconds), BODY, SECRET);
  for (const seconds of [-301, 301]) {
    await assert.rejects(verify(signed(SECRET, BODY, NOW + seconds), BODY, SECRET), InvalidSignature);
  }
});

test("only bytes are verified", async () => {
  const wrong: [unknown, RegExp][] = [
    [{ type: "assignment.created" }, /bytes of the body as they arrived.*an object \(Object\)/],
    [new TextDecoder().decode(BODY), /It got a string/],
    [null, /It got null/],
    [undefined, /It got a undefined/],
  ];
  for (const [body, message] of wrong) {
    await assert.rejects(verify(signed(), body as Uint8Array, SECRET), { name: "TypeError", message });
  }
});

test("a secret is needed, and must be one", async () => {
  await assert.rejects(verify(signed(), BODY), TypeError);
  for (const secret of ["whsec_", "whsec_%", "", undefined]) {
    await assert.rejects(verify(signed(), BODY, secret as string), { name: "TypeError", message: /whsec_ and base64/ });
  }
});
