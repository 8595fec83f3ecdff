// The core of the client: retries, tokens, errors, signals.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { inspect } from "node:util";
import { ApiError, Keyrack, NoAnswer } from "../../../clients/typescript/src/index.ts";
import { EMPTY, FakeServer, granted, json, pauses, problem, restorePauses, serving, skipPauses } from "./fakes.ts";

const LONG = 1000; // seconds, so that no attempt reaches its deadline

beforeEach(skipPauses);
afterEach(() => {
  restorePauses();
  mock.timers.reset();
});

function client(server: FakeServer, more = {}): Keyrack {
  return new Keyrack(server.options({ timeout: LONG, ...more }));
}

function inTurn(...answers: (() => Response | Error)[]): FakeServer {
  return serving(() => (answers.length > 1 ? answers.shift()! : answers[0]!)());
}

test("a call has all headers", async () => {
  const server = serving(() => json({ id: 4 }, 201));
  assert.deepEqual(await client(server).cars.create({ name: "Golf" }), { id: 4 });
  const [{ method, path, headers, body }] = server.calls as [(typeof server.calls)[0]];
  assert.deepEqual([method, path, body], ["PUT", "/cars", '{"name":"Golf"}']);
  assert.equal(headers.get("vendor-API-Key"), "the key");
  assert.equal(headers.get("Authorization"), "Bearer token 1");
  assert.equal(headers.get("Customer-ID"), "7");
  assert.equal(headers.get("Content-Type"), "application/json");
  assert.match(headers.get("Idempotency-Key")!, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(headers.get("User-Agent"), "keyrack-client-typescript/0.1.0");
  const form = new URLSearchParams(server.requests[0]!.body);
  assert.deepEqual(Object.fromEntries(form), {
    grant_type: "client_credentials", client_id: "the client", client_secret: "the secret",
  });
});

test("a read has no key, and a brand names the header of the API key", async () => {
  const server = serving(() => json({ id: 4 }));
  await client(server, { brand: "acme" }).cars.get("4/../5", { select: ["id", "name"] });
  const [seen] = server.calls;
  assert.equal(seen!.path, "/cars/4%2F..%2F5");
  assert.equal(seen!.query.get("$select"), "id,name");
  assert.equal(seen!.headers.get("acme-API-Key"), "the key");
  assert.equal(seen!.headers.get("Idempotency-Key"), null);
});

test("all attempts have one key, and Retry-After is obeyed", async () => {
  const server = inTurn(
    () => new Response(null, { status: 503 }),
    () => problem(429, "rate-limit", { "Retry-After": "7" }),
    () => new TypeError("connection reset"),
    () => problem(409, "idempotency-key-in-flight", { "Retry-After": "1" }),
    () => json({ id: 4 }, 201),
  );
  await client(server).cars.create({ name: "Golf" }, { key: "booking 1" });
  assert.deepEqual(server.calls.map((seen) => seen.headers.get("Idempotency-Key")), Array(5).fill("booking 1"));
  const [first, second, third, fourth] = pauses as [number, number, number, number];
  assert.equal(pauses.length, 4);
  assert(first >= 250 && first <= 500, "half a second with jitter");
  assert(second >= 7000 && second <= 7700);
  assert(third >= 500 && third <= 1000, "the next failure waits twice as long");
  assert(fourth >= 1000 && fourth <= 1100);
});

for (const status of [408, 425, 429, 500, 502, 503, 504]) {
  test(`${status} is repeated`, async () => {
    const server = inTurn(() => new Response("", { status }), () => new Response(null, EMPTY));
    await client(server).cars.delete(1);
    assert.equal(server.calls.length, 2);
  });
}

for (const status of [400, 403, 404, 409, 412, 415, 422, 501]) {
  test(`${status} is not repeated`, async () => {
    const server = inTurn(() => problem(status, "some-code"));
    await assert.rejects(client(server).cars.delete(1), { name: "ApiError", status, code: "some-code" });
    assert.equal(server.calls.length, 1);
    assert.equal(server.tokens, 1);
  });
}

test("a Retry-After of more than a minute is left to the caller", async () => {
  const server = inTurn(() => problem(429, "rate-limit", { "Retry-After": "61" }));
  await assert.rejects(client(server).cars.get(1), { status: 429, retryAfter: 61 });
  assert.equal(server.calls.length, 1);
});

test("a throttled call waits a minute altogether", async () => {
  for (const status of [429, 503]) {
    const server = inTurn(() => problem(status, "some-code", { "Retry-After": "8" }));
    await assert.rejects(client(server).cars.delete(1, { key: "k" }), { status, key: "k" });
    assert.equal(server.calls.length, 8);
    server.requests.length = 0;
    await assert.rejects(client(server, { attempts: 1 }).cars.delete(1), { status });
    assert.equal(server.calls.length, 1);
  }
});

test("the attempts are counted", async () => {
  const server = inTurn(() => new Response("", { status: 500 }));
  await assert.rejects(client(server, { attempts: 4 }).cars.delete(1), { status: 500 });
  assert.equal(server.calls.length, 4);
});

test("Retry-After can be a date", async () => {
  mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 10, 28, 12) });
  const date = "Sat, 28 Nov 2026 12:00:09 GMT";
  const server = inTurn(() => problem(503, "busy", { "Retry-After": date }), () => json({ id: 1 }));
  await client(server).cars.get(1);
  assert(pauses[0]! >= 9000 && pauses[0]! <= 9900);
});

test("after the last attempt the error names it", async () => {
  const reset = new TypeError("connection reset");
  const server = inTurn(() => reset);
  await assert.rejects(client(server, { attempts: 3 }).cars.delete(1, { key: "k" }), (error) => {
    assert(error instanceof NoAnswer);
    assert.equal(error.message, "DELETE /cars/1: no response in 3 attempts: connection reset");
    assert.deepEqual([error.cause, error.key], [reset, "k"]);
    return true;
  });
  assert.equal(server.calls.length, 3);
});

test("a body that breaks off is repeated", async () => {
  const broken = (): Response =>
    new Response(new ReadableStream({ start: (controller) => controller.error(new TypeError("cut")) }));
  const server = inTurn(broken, () => json({ id: 9 }));
  assert.equal((await client(server).cars.get(9)).id, 9);
});

test("an attempt has a deadline, which a long poll extends", async () => {
  restorePauses();
  const server = serving(() => new Promise(() => undefined));
  const hasty = client(server, { attempts: 1, timeout: 0.01 });
  await assert.rejects(hasty.cars.get(1), { name: "NoAnswer", message: /no response after 0.01 s/ });
  await assert.rejects(hasty.request("GET", "/x", { timeout: 0.005, serverWait: 0.005 }), { message: /after 0.01 s/ });
  // A long poll adds its wait by itself
  const poll = hasty.request("GET", "/x", { timeout: 0.005, query: { wait: 0.005 } });
  await assert.rejects(poll, { message: /after 0.01 s/ });
});

test("concurrent calls share one token, and one renewal", async () => {
  let accepted = "Bearer token 1";
  const server = serving((seen) =>
    seen.headers.get("Authorization") === accepted ? json({ id: 1 }) : problem(401, "invalid-token"),
  );
  const keyrack = client(server);
  await Promise.all(Array.from({ length: 50 }, () => keyrack.cars.get(1)));
  assert.equal(server.tokens, 1);
  accepted = "Bearer token 2";
  await Promise.all(Array.from({ length: 50 }, () => keyrack.cars.get(1)));
  assert.equal(server.tokens, 2);
});

test("a token is renewed once for a call, and never for 403", async () => {
  const refused = serving(() => problem(401, "invalid-token"));
  await assert.rejects(client(refused).cars.get(1), { status: 401, code: "invalid-token" });
  assert.equal(refused.tokens, 2);
  const other = serving(() => problem(401, "invalid-api-key"));
  await assert.rejects(client(other).cars.get(1), { status: 401, code: "invalid-api-key" });
  assert.equal(other.tokens, 1);
  const forbidden = serving(() => problem(403, "permission-missing"));
  await assert.rejects(client(forbidden).cars.get(1), { status: 403 });
  assert.equal(forbidden.tokens, 1);
});

test("a token is renewed 30 seconds before its end", async () => {
  mock.timers.enable({ apis: ["Date"], now: 0 });
  const server: FakeServer = new FakeServer((seen) =>
    seen.path === "/oauth2/token" ? granted(`token ${server.tokens}`, "3600") : json({ id: 1 }),
  );
  const keyrack = client(server);
  await keyrack.cars.get(1);
  mock.timers.setTime(3_569_000);
  await keyrack.cars.get(1);
  assert.equal(server.tokens, 1);
  mock.timers.setTime(3_570_000);
  await keyrack.cars.get(1);
  assert.equal(server.tokens, 2);
});

test("a wrong secret is an error of every waiting call, and the next call tries again", async () => {
  let isWrong = true;
  const server: FakeServer = new FakeServer((seen) => {
    if (seen.path !== "/oauth2/token") return json({ id: 1 });
    return isWrong ? problem(401, "invalid-client") : granted("good");
  });
  const keyrack = client(server);
  const results = await Promise.allSettled([keyrack.cars.get(1), keyrack.cars.get(2)]);
  assert.deepEqual(results.map((result) => result.status), ["rejected", "rejected"]);
  assert.equal(server.tokens, 1);
  isWrong = false;
  assert.equal((await keyrack.cars.get(1)).id, 1);
});

test("an address that is not Keyrack's is named", async () => {
  const page = (): Response => new Response("<html>", { headers: { "Content-Type": "text/html" } });
  await assert.rejects(client(new FakeServer(page)).cars.get(1), { message: /did not return a token/ });
  await assert.rejects(client(serving(page)).cars.get(1), { message: /not JSON but text\/html/ });
});

test("few attempts are made to get a token", async () => {
  const server = new FakeServer(() => new Response("", { status: 500 }));
  await assert.rejects(client(server, { attempts: 9 }).cars.get(1), { status: 500 });
  assert.equal(server.tokens, 3);
});

test("the function of a page returns the token, until it is refused", async () => {
  let asked = 0;
  const server = serving((seen) =>
    seen.headers.get("Authorization") === "Bearer own 2" ? json({ id: 1 }) : problem(401, "invalid-token"),
  );
  const token = async (): Promise<string> => `own ${++asked}`;
  const keyrack = client(server, { clientId: undefined, clientSecret: undefined, token });
  await keyrack.cars.get(1);
  await keyrack.cars.get(1);
  assert.deepEqual([asked, server.tokens], [2, 0]);
});

test("a password is the last resort", async () => {
  const server = serving(() => json({ id: 1 }));
  const login = { username: "anna", password: "pässword" };
  await client(server, { clientId: undefined, clientSecret: undefined, login }).cars.get(1);
  const form = Object.fromEntries(new URLSearchParams(server.requests[0]!.body));
  assert.deepEqual(form, { grant_type: "password", ...login });
});

test("a signal ends a call in each of its phases", async () => {
  const aborted = AbortSignal.abort(new Error("too late"));
  const idle = serving(() => json({ id: 1 }));
  await assert.rejects(client(idle).cars.get(1, { signal: aborted }), { message: "too late" });
  assert.equal(idle.requests.length, 0);

  for (const path of ["/cars/1", "/oauth2/token"]) {
    const controller = new AbortController();
    const server: FakeServer = new FakeServer((seen) => {
      if (seen.path !== path) return granted("good");
      controller.abort(new Error(`at ${path}`));
      return new Promise(() => undefined);
    });
    const { signal } = controller;
    await assert.rejects(client(server).cars.get(1, { signal }), { message: `at ${path}` });
    assert.equal(server.requests.filter((seen) => seen.path === path).length, 1);
  }

  restorePauses();
  const controller = new AbortController();
  const busy = serving(() => {
    setTimeout(() => controller.abort(new Error("while pausing")), 0);
    return problem(503, "busy", { "Retry-After": "60" });
  });
  await assert.rejects(client(busy).cars.get(1, { signal: controller.signal }), { message: "while pausing" });
});

test("a signal ends its own call only, while the token is renewed", async () => {
  let grant: (token: Response) => void = () => undefined;
  const token = new Promise<Response>((resolve) => (grant = resolve));
  const server = new FakeServer((seen) => (seen.path === "/oauth2/token" ? token : json({ id: 1 })));
  const keyrack = client(server);
  const controller = new AbortController();
  const impatient = keyrack.cars.get(1, { signal: controller.signal });
  const patient = keyrack.cars.get(1);
  controller.abort(new Error("enough"));
  await assert.rejects(impatient, { message: "enough" });
  grant(granted("good"));
  assert.equal((await patient).id, 1);
});

test("an error has the members of the problem", async () => {
  const errors = [{ code: "unknown", detail: "There is no property 'x'.", pointer: "/x" }];
  const server = inTurn(() => problem(400, "invalid-members", {}, { errors }));
  await assert.rejects(client(server).cars.create({ name: "" }), (error) => {
    assert(error instanceof ApiError);
    assert.equal(error.message, "400 invalid-members: It is invalid-members. There is no property 'x'.");
    assert.deepEqual([error.status, error.code, error.requestId], [400, "invalid-members", "r 1"]);
    assert.deepEqual([error.detail, error.errors], ["It is invalid-members.", errors]);
    return true;
  });
});

test("an error of a proxy is text", async () => {
  const server = inTurn(() => new Response("<html>".padEnd(5000, "x"), { status: 404 }));
  await assert.rejects(client(server).cars.get(1), (error) => {
    assert(error instanceof ApiError);
    assert.deepEqual([error.code, error.errors, error.detail.length], [undefined, [], 5000]);
    assert(error.message.length < 400);
    return true;
  });
});

test("a redirection is not followed, because it would take the API key along", async () => {
  const moved = { status: 308, headers: { Location: "https://elsewhere.test/" } };
  const server = inTurn(() => new Response(null, moved));
  await assert.rejects(client(server).cars.get(1), { status: 308, message: /redirects to https:\/\/elsewhere.test/ });
});

test("secrets do not appear in a log", () => {
  const keyrack = client(serving(() => json({})));
  const shown = inspect(keyrack, { depth: 10, showHidden: true }) + JSON.stringify(keyrack);
  assert.doesNotMatch(shown, /the secret|the key/);
});

test("wrong options are refused", () => {
  const { clientSecret: _, ...without } = serving(() => json({})).options();
  assert.throws(() => new Keyrack(without), { message: /Exactly one is needed/ });
  assert.throws(() => client(serving(() => json({})), { token: async () => "t" }), { message: /Exactly one is needed/ });
  assert.throws(() => client(serving(() => json({})), { url: "keyrack.test" }), { message: /http:\/\/ or https:\/\// });
  assert.throws(() => client(serving(() => json({})), { attempts: 0 }), { message: /at least 1/ });
});

test("a list without an end is an error", async () => {
  for (const page of [[{ id: 1 }], [{ id: 3 }, { id: 2 }], [{}], [1], [null], { id: 1 }, null]) {
    const server = serving(() => json(page));
    const keyrack = client(server);
    const expected = { name: "KeyrackError", message: /order of their ids|not a list/ };
    await assert.rejects(async () => { for await (const _ of keyrack.cars.list({ size: 1 })); }, expected);
    await assert.rejects(async () => { for await (const _ of keyrack.changes({ since: "e:1", wait: 0 })); }, expected);
    assert.ok(server.calls.length <= 3);
  }
});

test("a large body is not read to its end", async () => {
  const part = new Uint8Array(1024 * 1024).fill(32);
  let parts = 0;
  const server = serving(() => {
    const pull = (stream: ReadableStreamDefaultController): void => {
      parts += 1;
      stream.enqueue(part);
    };
    return new Response(new ReadableStream({ pull }), { headers: { "Content-Type": "application/json" } });
  });
  await assert.rejects(client(server).cars.get(1), { name: "KeyrackError", message: /larger than 67108864 bytes/ });
  assert.ok(parts < 70);
  assert.equal(server.calls.length, 1);
});

test("no error shows a secret", async () => {
  const server = new FakeServer(() => granted("my-token\r\nX: y"));
  await assert.rejects(client(server).cars.get(1), (error: Error) => !/my-token/.test(`${error} ${error.cause}`));
  assert.throws(() => client(serving(() => json({})), { apiKey: "my-key\n" }), { message: /^apiKey has/ });
});

test("an id does not change the path", async () => {
  const server = serving(() => json({}));
  for (const id of ["..", ".", ""]) await assert.rejects(async () => client(server).operations.get(id), TypeError);
  assert.equal(server.calls.length, 0);
});

test("a browser may not have a secret", () => {
  const userAgent = "Mozilla/5.0 (X11; Linux x86_64)";
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator")!;
  Object.defineProperty(globalThis, "navigator", { value: { userAgent }, configurable: true });
  try {
    const server = serving(() => json({}));
    assert.throws(() => client(server), { name: "TypeError", message: /token: \(\) => Promise<string>/ });
    const none = { clientId: undefined, clientSecret: undefined };
    assert.throws(() => client(server, { ...none, login: { username: "a", password: "b" } }), TypeError);
    client(server, { ...none, token: async () => "t" });
  } finally {
    Object.defineProperty(globalThis, "navigator", before);
  }
});

test("fromEnv names what is missing", async () => {
  const variables = {
    KEYRACK_URL: "https://keyrack.test/v3", KEYRACK_API_KEY: "k", KEYRACK_CLIENT_ID: "c", KEYRACK_CLIENT_SECRET: "s",
    KEYRACK_CUSTOMER_ID: "9",
  };
  const before = { ...process.env };
  for (const name of Object.keys(variables)) delete process.env[name];
  try {
    assert.throws(() => Keyrack.fromEnv({ url: "http://x" }), {
      message: "Set KEYRACK_API_KEY, KEYRACK_CLIENT_ID, KEYRACK_CLIENT_SECRET, KEYRACK_CUSTOMER_ID in the environment.",
    });
    Object.assign(process.env, variables);
    const server = serving(() => json({ id: 1 }));
    await Keyrack.fromEnv({ fetch: server.fetch }).cars.get(1);
    assert.equal(server.calls[0]!.headers.get("Customer-ID"), "9");
    delete process.env["KEYRACK_CLIENT_ID"];
    Keyrack.fromEnv({ login: { username: "a", password: "b" } });
  } finally {
    process.env = before;
  }
});
