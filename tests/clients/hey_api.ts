// A whole integration with the functions of @hey-api/openapi-ts: from signing in to the events of a car.
import assert from "node:assert/strict";
import { Webhook } from "standardwebhooks";
import * as keyrack from "./keyrack";
import { client } from "./keyrack/client.gen";
import { receiver, setting } from "./receiver";

const customer = Number(setting("KEYRACK_CUSTOMER_ID"));
const headers = { "Customer-ID": customer };
const throwOnError = true;

async function main(): Promise<void> {
  let token = "";
  const secrets: Record<string, string> = {
    "vendor-API-Key": setting("KEYRACK_API_KEY"),
    "Device-Key": setting("KEYRACK_DEVICE_KEY"),
  };
  client.setConfig({ baseUrl: setting("KEYRACK_URL"), auth: ({ name }) => (name ? secrets[name] : token) });
  const credentials = {
    username: setting("KEYRACK_USERNAME"), password: setting("KEYRACK_PASSWORD"), grant_type: "password",
  };
  token = (await keyrack.getAccessToken({ body: credentials, throwOnError })).data.access_token;

  const customers = await keyrack.listCustomers({ throwOnError });
  assert.equal(Number(customers.data[0]?.id), customer);

  const made = await keyrack.createCar({ headers, body: { name: "Hey's", licensePlate: "TS 2" }, throwOnError });
  const carId = made.data.id;
  const { data: car } = await keyrack.getCar({ headers, path: { carId }, throwOnError });
  assert.deepEqual([car.name, car.licensePlate, car.vin], ["Hey's", "TS 2", null]);

  const { data: user } = await keyrack.createUser({
    headers,
    body: {
      emailAddress: `hedy.${customer}@example.com`, userData: { firstName: "Hedy", lastName: "Hey" }, type: "Normal",
    },
    throwOnError,
  });
  assert("password" in user && typeof user.password === "string");
  const userId = user.id;

  for (const serialNumber of [setting("KEYRACK_BOX"), setting("KEYRACK_IQ")]) {
    const installed = await keyrack.installProduct({ headers, body: { carId, serialNumber }, throwOnError });
    assert.equal(installed.response.status, 204);
  }

  const place = await receiver();
  const { data: webhook } = await keyrack.createWebhook({
    headers, body: { url: place.url, kinds: ["assignment.created"] }, throwOnError,
  });
  assert("signingSecret" in webhook && webhook.signingSecret !== undefined);

  const start = "2026-05-01T08:00:00Z";
  const asked = await keyrack.createAssignment({ headers, body: { carId, userId, start, lifetime: 700_000 }, throwOnError });
  assert.equal(asked.response.status, 204);
  const message = await place.message;
  const outcome = new Webhook(webhook.signingSecret).verify(message.body, message.headers) as keyrack.Outcome;
  assert.equal(outcome.operationId, asked.response.headers.get("Operation-Id"));
  assert.deepEqual([outcome.type, outcome.operationSucceeded], ["assignment.created", true]);
  assert.deepEqual([outcome.carId, outcome.userId, outcome.start], [carId, userId, start]);
  assert(outcome.assignmentId !== null);
  const { data: assignment } = await keyrack.getAssignment({
    headers, path: { assignmentId: outcome.assignmentId }, throwOnError,
  });
  assert.deepEqual([assignment.end, assignment.lifetime, assignment.renewableAfter], [null, 700_000, 350_000]);

  const { data: delivered } = await keyrack.deliverTelemetry({
    body: [
      {
        serialNumber: setting("KEYRACK_IQ"), carDataReadTime: new Date().toISOString(),
        currentLatitude: 52.52, currentLongitude: 13.405, odometer: 48210.5,
      },
    ],
    throwOnError,
  });
  assert.deepEqual([delivered.accepted, delivered.refused], [1, []]);
  const { data: location } = await keyrack.getCarLocation({ headers, path: { carId }, throwOnError });
  assert.deepEqual([location.latitude, location.longitude, location.odometer], ["52.52", "13.405", "48210.5"]);

  const { data: event } = await keyrack.createEvent({
    headers,
    body: { dateTime: "2026-05-01T10:15:00", utcDateTime: start, carId, userId, type: "CarOpened", userAgent: "Hey" },
    throwOnError,
  });
  const { data: events } = await keyrack.listEventsOfCar({
    headers, path: { carId }, query: { $filter: `id eq ${event.id}`, $expand: "car" }, throwOnError,
  });
  assert.deepEqual(
    events.map((one) => [one.type, one.dateTime, one.latitude, one.car?.name]),
    [["CarOpened", "2026-05-01T10:15:00", null, "Hey's"]],
  );
  const refused = await keyrack.getCar({ headers, path: { carId: 2_147_483_647 } });
  assert.equal(refused.response?.status, 404);
  place.close();
  console.log("hey-api:", car.name, events[0]?.type, outcome.type);
}

void main();
