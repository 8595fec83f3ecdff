// Uses a server of an earlier commit: node older_server.ts MODULE, with the JSON of `Given` on standard input.
import { readFileSync } from "node:fs";
import type * as Client from "keyrack-client";

interface Given {
  url: string;
  apiKey: string;
  customerId: number;
  clientId: string;
  clientSecret: string;
  carId: number;
  userId: number;
  start: string;
  end: string;
}

const client = (await import(process.argv[2]!)) as typeof Client;
const { carId, userId, start, end, ...options } = JSON.parse(readFileSync(0, "utf8")) as Given;
const keyrack = new client.Keyrack({ ...options, timeout: 180 });
const seen: Record<string, unknown> = {};

/** The code of the error, and the properties that it names. */
async function rejected(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => "no error",
    (error: unknown) => (error instanceof client.ApiError ? [error.status, error.code, error.errors[0]?.pointer] : String(error)),
  );
}

const before = await keyrack.newestPosition();
const ids: number[] = [];
for await (const car of keyrack.cars.list({ size: 7 })) ids.push(car.id);
seen["cars"] = ids;
const booked = await keyrack.assignments.create({ carId, userId, start, end }, { wait: 180 });
seen["booked"] = [booked.state, (await keyrack.assignments.get(booked.assignmentId!)).start];
const kinds: string[] = [];
for await (const { change } of keyrack.changes({ since: before, wait: 30 })) {
  kinds.push(change.kind);
  if (change.kind === "assignment.created" && change.resourceId === String(booked.assignmentId)) break;
}
seen["change"] = kinds.at(-1);
seen["exclusive"] = await rejected(keyrack.assignments.create({ carId, userId, start, end, exclusive: true }));
seen["reference"] = await rejected(keyrack.cars.create({ name: "Lost", externalId: "V-1" }));
seen["metadata"] = await rejected(keyrack.users.create({
  emailAddress: "lost@example.org", userData: { firstName: "L", lastName: "T" }, metadata: { plan: "gold" },
}));
seen["patch"] = await rejected(keyrack.cars.update(carId, { externalId: "V-1" }));
seen["available"] = await rejected(keyrack.cars.available(start, end).first());
const body = { name: "Lost", externalId: "V-1" };
seen["item"] = (await keyrack.batch({ kind: "cars", items: [{ op: "create", body }] })).results.map((row) => [row.status, row.code]);
seen["lost"] = await keyrack.cars.list({ filter: "name eq 'Lost'" }).page();
console.log(JSON.stringify(seen));
