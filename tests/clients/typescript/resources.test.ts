// Lists, outcomes, changes and patches.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { Keyrack, OutcomeFailed, OutcomePending, StartOver } from "../../../clients/typescript/src/index.ts";
import type { ApiError, CarUpdate, ListOptions } from "../../../clients/typescript/src/index.ts";
import type { FakeServer, Respond } from "./fakes.ts";
import { EMPTY, json, pauses, problem, restorePauses, serving, skipPauses } from "./fakes.ts";

beforeEach(skipPauses);
afterEach(() => {
  restorePauses();
  mock.timers.reset();
});

function connected(respond: Respond): [Keyrack, FakeServer] {
  const server = serving(respond);
  return [new Keyrack(server.options({ timeout: 1000 })), server];
}

/** Rows 1 to 5, read by `id gt N`. */
function fleet(seen: { query: URLSearchParams }): Response {
  const after = Number(/id gt (\d+)/.exec(seen.query.get("$filter") ?? "")?.[1] ?? 0);
  const rows = [1, 2, 3, 4, 5].filter((id) => id > after).map((id) => ({ id }));
  return json(rows.slice(0, Number(seen.query.get("$top"))));
}

async function ids(rows: AsyncIterable<{ id: number }>): Promise<number[]> {
  const found = [];
  for await (const row of rows) found.push(row.id);
  return found;
}

test("a list reads page by page after the last id", async () => {
  const [keyrack, server] = connected(fleet);
  assert.deepEqual(await ids(keyrack.cars.list({ size: 2, filter: "name eq 'x' or id eq 1", select: ["name"] })), [1, 2, 3, 4, 5]);
  assert.deepEqual(server.calls.map((seen) => Object.fromEntries(seen.query)), [
    { $filter: "name eq 'x' or id eq 1", $select: "id,name", $orderby: "id", $top: "2" },
    { $filter: "(name eq 'x' or id eq 1) and id gt 2", $select: "id,name", $orderby: "id", $top: "2" },
    { $filter: "(name eq 'x' or id eq 1) and id gt 4", $select: "id,name", $orderby: "id", $top: "2" },
  ]);
});

test("free cars are a list of a period", async () => {
  const [keyrack, server] = connected(fleet);
  const start = new Date(Date.UTC(2030, 4, 1, 8));
  const cars = keyrack.cars.available(start, "2030-05-01T12:00:00+02:00", { size: 4, gap: 60, box: "any", select: ["freeUntil"] });
  assert.deepEqual(await ids(cars), [1, 2, 3, 4, 5]);
  const period = { from: "2030-05-01T08:00:00.000Z", to: "2030-05-01T12:00:00+02:00", gap: "60", box: "any" };
  assert.deepEqual(Object.fromEntries(server.calls[1]!.query), {
    ...period, $filter: "id gt 4", $select: "id,freeUntil", $orderby: "id", $top: "4",
  });
  await keyrack.cars.available("a", "b").first();
  assert.deepEqual([...server.calls[2]!.query.keys()], ["from", "to", "$orderby", "$top"]);
  await assert.rejects(keyrack.cars.available(new Date("tomorrow"), "b").first(), RangeError);
});

test("a write rejects properties that the server does not have", async () => {
  const [keyrack, server] = connected(() => json({}));
  await keyrack.cars.create({ name: "New" });
  await keyrack.cars.update(1, { name: "Newer" });
  await keyrack.batch({ kind: "cars", items: [] });
  await keyrack.cars.delete(1);
  assert.deepEqual(server.calls.map((seen) => seen.headers.get("Prefer")), [...Array(3).fill("handling=strict"), null]);
});

test("a list that is left early reads no more", async () => {
  const [keyrack, server] = connected(fleet);
  for await (const car of keyrack.cars.list({ size: 2 })) if (car.id === 2) break;
  assert.equal(server.calls.length, 1);
});

test("the first row and a page", async () => {
  const [keyrack, server] = connected(fleet);
  assert.deepEqual(await keyrack.products.list({ expand: "car" }).first(), { id: 1 });
  assert.deepEqual(await keyrack.users.list({ size: 2 }).page(3), [{ id: 4 }, { id: 5 }]);
  assert.deepEqual(await keyrack.users.list().page(5, 1), []);
  assert.equal(server.calls[0]!.query.get("$expand"), "car");
});

test("a misspelt option of a list is an error", () => {
  const [keyrack, server] = connected(fleet);
  const misspelt = { filtr: "id eq 1" } as ListOptions;
  assert.throws(() => keyrack.cars.list(misspelt), /no option "filtr"\. The options are filter, /);
  assert.equal(server.calls.length, 0);
});

test("the messages of a pull webhook are read and acknowledged", async () => {
  const [keyrack, server] = connected((seen) => json(seen.method === "GET" ? [] : { count: 3 }));
  assert.deepEqual(await keyrack.webhooks.messages(7, { wait: 60, top: 5 }), []);
  assert.deepEqual(await keyrack.webhooks.acknowledge(7, { upto: 9 }), { count: 3 });
  assert.deepEqual(server.calls.map((seen) => [seen.method, seen.path, seen.query.toString(), seen.body]), [
    ["GET", "/webhooks/7/messages", "wait=60&top=5", ""],
    ["POST", "/webhooks/7/messages/ack", "", '{"upto":9}'],
  ]);
});

test("an error has its reasons and the resource in the way", async () => {
  const detail = "No valid carId provided.";
  const reason = "`carId` must be an integer, but is a string.";
  const conflicts = [{ assignmentId: 4, userId: 2, start: "2030-05-01T08:00:00Z", end: null }];
  const answers = [
    problem(400, "invalid-members", {}, { detail, errors: [{ pointer: "/carId", code: "wrong-type", detail: reason }, null] }),
    problem(409, "external-id-taken", {}, { detail, id: 35 }),
    problem(409, "assignment-conflict", {}, { detail, conflicts }),
  ];
  const [keyrack] = connected(() => answers.shift()!);
  const caught = async (): Promise<ApiError> => keyrack.assignments.create(BOOKING).then(() => assert.fail("no error"), (error) => error);
  const [invalid, taken, conflict] = [await caught(), await caught(), await caught()];
  assert.equal(invalid.message, `400 invalid-members: ${detail} ${reason}`);
  assert.equal(invalid.errors.length, 1);
  assert.equal(taken.resourceId, 35);
  assert.deepEqual(conflict.conflicts, conflicts);
});

test("a patch has the given properties only", async () => {
  const [keyrack, server] = connected(() => new Response(null, EMPTY));
  assert.equal(await keyrack.cars.update(3, { name: "New", vin: null, brand: undefined } as unknown as CarUpdate), undefined);
  assert.deepEqual(JSON.parse(server.calls[0]!.body), [
    { op: "replace", path: "/name", value: "New" },
    { op: "remove", path: "/vin" },
  ]);
});

const OPERATION = { id: "5f0c1c1e", state: "Pending", errorMessage: null, errorCode: null };
const SUCCEEDED = { ...OPERATION, state: "Succeeded" };
const FAILED = { ...OPERATION, state: "Failed", errorCode: "no-key-box", errorMessage: "The car has no key box." };
const BOOKING = { carId: 1, userId: 2, start: "2026-12-01T08:00:00Z" };

test("a booking waits at the server if it can", async () => {
  const [keyrack, server] = connected(() => json(SUCCEEDED, 200, { "Preference-Applied": "wait=10" }));
  assert.deepEqual(await keyrack.assignments.create(BOOKING), SUCCEEDED);
  assert.equal(server.calls.length, 1);
  assert.equal(server.calls[0]!.headers.get("Prefer"), "return=representation, handling=strict, wait=10");
});

test("a booking polls at an older server", async () => {
  const states = [OPERATION, OPERATION, SUCCEEDED];
  const operationId = { "Operation-Id": OPERATION.id };
  for (const accepted of [
    (): Response => new Response(null, { status: 204, headers: operationId }),
    (): Response => json(OPERATION, 202, operationId),
  ]) {
    let reads = 0;
    const [keyrack, server] = connected((seen) =>
      seen.method === "PUT" ? accepted() : json(states[Math.min(reads++, 2)]),
    );
    assert.deepEqual(await keyrack.assignments.create(BOOKING, { wait: 45.5, key: "k" }), SUCCEEDED);
    assert.match(server.calls[0]!.headers.get("Prefer")!, /wait=30$/);
    assert(server.calls.slice(1).every((seen) => seen.path === `/operations/${OPERATION.id}`));
    assert.equal(reads, 3);
  }
});

test("a booking polls at a server that waits, without pauses", async () => {
  let reads = 0;
  const [keyrack, server] = connected((seen) =>
    seen.method === "GET" && reads++ > 1
      ? json(SUCCEEDED)
      : json(OPERATION, 202, { "Operation-Id": OPERATION.id, "Preference-Applied": "wait=30" }),
  );
  await keyrack.assignments.create(BOOKING, { wait: 45 });
  assert.deepEqual(server.calls.slice(1).map((seen) => seen.headers.get("Prefer")), Array(3).fill("wait=30"));
  assert.equal(pauses.length, 1);
});

test("a failed outcome is an error with its code", async () => {
  const [keyrack] = connected(() => json(FAILED));
  for (const ending of [keyrack.assignments.delete(4), keyrack.assignments.update(4, { end: null })]) {
    await assert.rejects(ending, (error) => {
      assert(error instanceof OutcomeFailed);
      assert.deepEqual([error.code, error.operation, error.message], [
        "no-key-box", FAILED, "no-key-box: The car has no key box.",
      ]);
      return true;
    });
  }
});

test("an outcome that does not come in time is an error that names the operation", async () => {
  const [keyrack] = connected(() => json(OPERATION, 202, { "Operation-Id": OPERATION.id }));
  await assert.rejects(keyrack.assignments.create(BOOKING, { wait: 0 }), (error) => {
    assert(error instanceof OutcomePending);
    assert.deepEqual(error.operationId, OPERATION.id);
    return true;
  });
  assert.deepEqual(await keyrack.assignments.create(BOOKING, { wait: null }), OPERATION);
});

test("an operation can be waited for later", async () => {
  let reads = 0;
  const [keyrack] = connected(() => json(reads++ < 3 ? OPERATION : SUCCEEDED));
  assert.deepEqual(await keyrack.operations.wait(OPERATION.id), SUCCEEDED);
  assert.equal(reads, 4);
});

const HEADERS = { "Changes-Epoch": "e1", "Changes-Oldest": "3", "Changes-Newest": "5" };

function log(seen: { query: URLSearchParams }): Response {
  if (seen.query.get("$top") === "0") return json([], 200, HEADERS);
  const after = Number(/^id gt (\d+)$/.exec(seen.query.get("$filter") ?? "")![1]);
  const changes = [3, 4, 5].filter((id) => id > after).map((id) => ({ id, kind: "car.updated" }));
  return json(changes.slice(0, Number(seen.query.get("$top"))), 200, HEADERS);
}

async function positions(keyrack: Keyrack, options: object): Promise<string[]> {
  const found = [];
  for await (const { change, position } of keyrack.changes({ wait: 0, size: 2, ...options })) {
    assert(position.endsWith(`:${change.id}`));
    found.push(position);
  }
  return found;
}

test("changes begin with the oldest one, and continue after a position", async () => {
  const [keyrack, server] = connected(log);
  assert.deepEqual(await positions(keyrack, {}), ["e1:3", "e1:4", "e1:5"]);
  assert.deepEqual(await positions(keyrack, { since: "e1:4" }), ["e1:5"]);
  assert.equal(server.calls.at(-1)!.query.get("epoch"), "e1");
  assert.deepEqual(await positions(keyrack, { since: 4, epoch: "e1" }), ["e1:5"]);
  assert.equal(await keyrack.newestPosition(), "e1:5");
  await assert.rejects(positions(keyrack, { since: "5" }), { name: "TypeError", message: /such as "EPOCH:17"/ });
});

test("a log without changes has no epoch yet", async () => {
  let isEmpty = true;
  const [keyrack, server] = connected((seen) => (isEmpty ? json([]) : log(seen)));
  const changes = keyrack.changes({ wait: 90 });
  const next = changes.next();
  while (server.calls.length < 2) await new Promise(setImmediate);
  isEmpty = false;
  assert.deepEqual((await next).value, { change: { id: 3, kind: "car.updated" }, position: "e1:3" });
  const [{ query }] = server.calls as [FakeServer["calls"][0]];
  assert.deepEqual([query.get("wait"), query.get("epoch"), query.get("$filter")], ["60", null, "id gt 0"]);
});

test("missed changes are an error with the position to continue from", async () => {
  const [keyrack] = connected(() => problem(410, "cursor-gone", {}, { epoch: "e2", oldest: 1_000, newest: 1_009 }));
  await assert.rejects(positions(keyrack, { since: "e1:5" }), (error) => {
    assert(error instanceof StartOver);
    assert.deepEqual([error.position, error.newest, error.epoch], ["e2:1009", 1009, "e2"]);
    return true;
  });
});

test("other endpoints are requests", async () => {
  const [keyrack, server] = connected(() => json([{ kind: "events" }], 200, { ETag: '"1"' }));
  const { status, headers, body } = await keyrack.request("GET", "/retention", { query: { a: "b c&d", e: undefined } });
  assert.deepEqual([status, headers.get("ETag"), body], [200, '"1"', [{ kind: "events" }]]);
  assert.equal(server.calls[0]!.query.get("a"), "b c&d");
  await keyrack.request("PUT", "/x", { headers: { Prefer: "return=minimal" }, body: null });
  assert.deepEqual([server.calls[1]!.headers.get("Prefer"), server.calls[1]!.body], ["return=minimal", "null"]);
});

test("an operation is called by its name", async () => {
  const [keyrack, server] = connected(() => json({ latitude: "52.5" }));
  assert.equal((await keyrack.call("getCarLocationAt", [7, "2026-05-01T08:00:00Z"])).latitude, "52.5");
  assert.equal(server.calls[0]!.path, "/cars/7/location/2026-05-01T08%3A00%3A00Z");
  await assert.rejects(keyrack.call("getCar", [] as unknown as [number]), { name: "TypeError", message: /0 ids/ });
});

test("the paths of all methods", async () => {
  const [keyrack, server] = connected(() => json({}));
  await keyrack.users.add({ userId: 1 });
  await keyrack.users.remove({ userId: 1 });
  await keyrack.products.install({ carId: 1, productId: 2 });
  await keyrack.products.uninstall({ carId: 1, productId: 2 });
  await keyrack.groups.create({ name: "g" });
  await keyrack.groups.update(1, { name: "h" });
  await keyrack.groups.delete(1);
  await keyrack.groups.addCar(1, { carId: 2 });
  await keyrack.groups.removeCar(1, 2);
  await keyrack.groups.addUser(1, { userId: 3 });
  await keyrack.groups.removeUser(1, 3);
  await keyrack.webhooks.create({ url: "https://x.test" });
  await keyrack.webhooks.update(1, { enabled: false });
  await keyrack.webhooks.rotateSecret(1);
  await keyrack.webhooks.test(1);
  await keyrack.webhooks.delete(1);
  await keyrack.batch({ kind: "cars", items: [{ op: "end", id: 1 }] });
  assert.deepEqual(server.calls.map((seen) => `${seen.method} ${seen.path}`), [
    "PUT /users/assignments/customers", "DELETE /users/assignments/customers", "PUT /installations",
    "DELETE /installations", "PUT /groups", "PATCH /groups/1", "DELETE /groups/1", "PUT /groups/1/cars",
    "DELETE /groups/1/cars/2", "PUT /groups/1/users", "DELETE /groups/1/users/3", "PUT /webhooks", "PATCH /webhooks/1",
    "POST /webhooks/1/rotate-secret", "POST /webhooks/1/test", "DELETE /webhooks/1", "POST /batch",
  ]);
});
