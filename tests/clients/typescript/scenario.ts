// An integration from the first car to webhooks, in Node and in a browser.
import type * as Client from "keyrack-client";

export interface Given {
  url: string;
  apiKey: string;
  customerId: number;
  /** Credentials of a machine client, in Node only. */
  clientId?: string;
  clientSecret?: string;
  /** An access token, in a browser. */
  token?: string;
  box: string;
  hook: string;
}

function check(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

async function rejected(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => check(false, "the call did not reject"),
    (error: unknown) => error,
  );
}

/** The states and codes that a test compares. */
export async function scenario(client: typeof Client, given: Given): Promise<Record<string, unknown>> {
  const { ApiError, Keyrack, OutcomeFailed, StartOver } = client;
  const { url, apiKey, customerId, clientId, clientSecret, token } = given;
  const credentials = token === undefined ? { clientId: clientId!, clientSecret: clientSecret! } : { token: async () => token };
  const keyrack = new Keyrack({ url, apiKey, customerId, timeout: 60, ...credentials });
  const seen: Record<string, unknown> = {};

  const before = await keyrack.newestPosition();
  const { id: carId } = await keyrack.cars.create({ name: "Golf", licensePlate: "TS 1" });
  await keyrack.cars.update(carId, { brand: "VW", licensePlate: null });
  const car = await keyrack.cars.get(carId, { select: ["id", "name", "brand", "licensePlate"] });
  seen["car"] = [car.name, car.brand, car.licensePlate];
  const { id: bare } = await keyrack.cars.create({ name: "Without a box" });
  const batch = await keyrack.batch({
    kind: "cars",
    items: ["a", "b", "c", ""].map((name) => ({ op: "create" as const, body: { name } })),
  });
  seen["batch"] = batch.results.map((result) => result.status);
  const names = [];
  for await (const row of keyrack.cars.list({ size: 2, select: ["name"] })) names.push(row.name);
  seen["names"] = names;
  seen["first"] = (await keyrack.cars.list({ filter: "brand eq 'VW'", expand: "products" }).first())?.products;
  const counted = await keyrack.request<unknown[]>("GET", "/cars", { query: { $count: true, $top: 1 } });
  seen["counted"] = [counted.headers.get("X-Total-Count"), counted.body.length];

  const address = `tess.${customerId}.${token === undefined ? "node" : "page"}@example.com`;
  const { id: userId } = await keyrack.users.create({
    emailAddress: address,
    userData: { firstName: "Tess", lastName: "Type" },
  });
  await keyrack.products.install({ carId, serialNumber: given.box });
  seen["product"] = (await keyrack.products.list({ filter: `car/id eq ${carId}` }).first())?.serialNumber;

  const start = new Date(Date.UTC(2026, 4, 1, 8));
  const booking = { carId, userId, start, end: "2030-05-02T08:00:00Z" };
  const booked = await keyrack.assignments.create(booking, { key: "booking 1" });
  const again = await keyrack.assignments.create(booking, { key: "booking 1" });
  seen["booked"] = [booked.state, again.id === booked.id];
  const assignmentId = booked.assignmentId!;
  seen["moved"] = (await keyrack.assignments.update(assignmentId, { end: new Date(Date.UTC(2030, 4, 3)) })).state;
  seen["assignment"] = [(await keyrack.assignments.get(assignmentId)).end, (await keyrack.assignments.list().page()).length];
  const free: string[] = [];
  for await (const row of keyrack.cars.available(start, "2026-06-01T00:00:00Z", { size: 2, box: "any" })) free.push(row.name);
  seen["free"] = free;
  seen["ready"] = (await keyrack.cars.available(start, "2026-06-01T00:00:00Z").first())?.id === carId;
  const colour = { name: "Later", colour: "red" } as Client.NewCar;
  const later = await rejected(keyrack.cars.create(colour));
  seen["later"] = later instanceof ApiError ? [later.status, later.errors[0]?.pointer] : String(later);
  const pending = await keyrack.assignments.delete(assignmentId, { wait: null });
  seen["ended"] = (await keyrack.operations.wait(pending.id)).state;
  const operations = [];
  for await (const operation of keyrack.operations.list({ size: 2 })) operations.push(operation.state);
  seen["operations"] = operations;
  const failed = await rejected(keyrack.assignments.create({ ...booking, carId: bare }));
  seen["failed"] = failed instanceof OutcomeFailed ? failed.code : String(failed);

  const missing = await rejected(keyrack.cars.get(2_147_483_647));
  check(missing instanceof ApiError, String(missing));
  seen["missing"] = [missing.status, missing.code, typeof missing.requestId];
  const wrong = await rejected(keyrack.assignments.create({ ...booking, end: "tomorrow" }));
  check(wrong instanceof ApiError, String(wrong));
  seen["wrong"] = [wrong.code, wrong.errors[0]?.pointer];

  const event = { dateTime: "2026-05-01T10:15:00", utcDateTime: start, carId, userId, type: "CarOpened", userAgent: "TS" } as const;
  const { id: eventId } = await keyrack.events.create(event);
  seen["event"] = (await keyrack.events.get(eventId)).dateTime;
  seen["location"] = ((await rejected(keyrack.call("getCarLocation", [carId]))) as Client.ApiError).code;

  const { id: groupId } = await keyrack.groups.create({ name: `Cars of ${address}` });
  await keyrack.groups.addCar(groupId, { carId });
  seen["group"] = (await keyrack.call("listCarsOfGroup", [groupId])).length;
  await keyrack.groups.removeCar(groupId, carId);
  await keyrack.groups.delete(groupId);

  const webhook = await keyrack.webhooks.create({ url: given.hook, enabled: false });
  await keyrack.webhooks.update(webhook.id, { kinds: ["car.*"] });
  const rotated = await keyrack.webhooks.rotateSecret(webhook.id);
  seen["webhook"] = [(await keyrack.webhooks.get(webhook.id)).kinds, rotated.signingSecret !== webhook.signingSecret];
  await keyrack.webhooks.delete(webhook.id);

  const kinds = [];
  for await (const { change, position } of keyrack.changes({ since: before, wait: 10, size: 3 })) {
    if (!kinds.length && change.kind !== "car.created") continue; // a change of the set-up got its number later
    kinds.push(change.kind);
    if (kinds.length === 2) seen["resumed"] = (await keyrack.changes({ since: position, wait: 0 }).next()).value!.change.id - change.id;
    if (change.kind === "webhook.deleted") break;
  }
  seen["kinds"] = [kinds[0], kinds.at(-1), kinds.includes("assignment.created")];
  const unknown = keyrack.changes({ since: "5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55:1" });
  const gone = await rejected(unknown.next());
  check(gone instanceof StartOver, String(gone));
  seen["gone"] = (await keyrack.changes({ since: gone.position, wait: 0 }).next()).done;

  const controller = new AbortController();
  const waiting = keyrack.changes({ since: await keyrack.newestPosition(), wait: 60, signal: controller.signal }).next();
  controller.abort(new Error("enough"));
  seen["aborted"] = ((await rejected(waiting)) as Error).message;
  const none = await client
    .verify({}, new Uint8Array(), "whsec_c2VjcmV0")
    .catch((error: unknown) => (error instanceof client.InvalidSignature ? "invalid" : String(error)));
  seen["verified"] = none;
  await keyrack.cars.delete(carId);
  await keyrack.users.remove({ userId });
  return seen;
}
