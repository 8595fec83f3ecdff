// A whole integration with openapi-typescript's types and openapi-fetch: from signing in to the events of a car.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { components, paths } from "./keyrack";
import { receiver, setting } from "./receiver";

type Outcome = components["schemas"]["Outcome"];
const key = setting("KEYRACK_API_KEY");
const customer = Number(setting("KEYRACK_CUSTOMER_ID"));
const header = { "Customer-ID": customer };
const keyrack = createClient<paths>({ baseUrl: setting("KEYRACK_URL"), headers: { "vendor-API-Key": key } });

function wanted<Answer>(result: { data?: Answer; error?: unknown; response: Response }): Answer {
  assert(result.data !== undefined, `${result.response.status} ${JSON.stringify(result.error)}`);
  return result.data;
}

async function main(): Promise<void> {
  const token = wanted(
    await keyrack.POST("/oauth2/token", {
      body: {
        username: setting("KEYRACK_USERNAME"), password: setting("KEYRACK_PASSWORD"), grant_type: "password",
      },
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
    }),
  );
  keyrack.use({ onRequest: ({ request }) => request.headers.set("Authorization", `Bearer ${token.access_token}`) });

  const customers = wanted(await keyrack.GET("/customers"));
  assert.equal(Number(customers[0]?.id), customer);

  const carId = wanted(
    await keyrack.PUT("/cars", { params: { header }, body: { name: "Fetch's", licensePlate: "TS 1" } }),
  ).id;
  const car = wanted(await keyrack.GET("/cars/{carId}", { params: { header, path: { carId } } }));
  assert.deepEqual([car.name, car.licensePlate, car.vin], ["Fetch's", "TS 1", null]);

  const user = wanted(
    await keyrack.PUT("/users", {
      params: { header },
      body: {
        emailAddress: `tess.${customer}@example.com`, userData: { firstName: "Tess", lastName: "Type" }, type: "Normal",
      },
    }),
  );
  assert("password" in user && typeof user.password === "string");
  const userId = user.id;

  for (const serialNumber of [setting("KEYRACK_BOX"), setting("KEYRACK_IQ")]) {
    const installed = await keyrack.PUT("/installations", { params: { header }, body: { carId, serialNumber } });
    assert.equal(installed.response.status, 204);
  }

  const place = await receiver();
  const webhook = wanted(
    await keyrack.PUT("/webhooks", { params: { header }, body: { url: place.url, kinds: ["assignment.created"] } }),
  );
  assert("signingSecret" in webhook && webhook.signingSecret !== undefined);

  const start = "2026-05-01T08:00:00Z";
  const asked = await keyrack.PUT("/assignments", {
    params: { header },
    body: { carId, userId, start, lifetime: 700_000 },
  });
  assert.equal(asked.response.status, 204);
  const { body, headers } = await place.message;
  const outcome = new Webhook(webhook.signingSecret).verify(body, headers) as Outcome;
  assert.equal(outcome.operationId, asked.response.headers.get("Operation-Id"));
  assert.deepEqual([outcome.type, outcome.operationSucceeded], ["assignment.created", true]);
  assert.deepEqual([outcome.carId, outcome.userId, outcome.start], [carId, userId, start]);
  assert(outcome.assignmentId !== null);
  const assignment = wanted(
    await keyrack.GET("/assignments/{assignmentId}", {
      params: { header, path: { assignmentId: outcome.assignmentId } },
    }),
  );
  assert.deepEqual([assignment.end, assignment.lifetime, assignment.renewableAfter], [null, 700_000, 350_000]);

  const delivered = wanted(
    await keyrack.POST("/ingest/telemetry", {
      headers: { "Device-Key": setting("KEYRACK_DEVICE_KEY") },
      body: [
        {
          serialNumber: setting("KEYRACK_IQ"), carDataReadTime: new Date().toISOString(),
          currentLatitude: 52.52, currentLongitude: 13.405, odometer: 48210.5,
        },
      ],
    }),
  );
  assert.deepEqual([delivered.accepted, delivered.refused], [1, []]);
  const location = wanted(await keyrack.GET("/cars/{carId}/location", { params: { header, path: { carId } } }));
  assert.deepEqual([location.latitude, location.longitude, location.odometer], ["52.52", "13.405", "48210.5"]);

  const event = wanted(
    await keyrack.PUT("/events", {
      params: { header },
      body: {
        dateTime: "2026-05-01T10:15:00", utcDateTime: start, carId, userId, type: "CarOpened", userAgent: "Fetch",
      },
    }),
  );
  const events = wanted(
    await keyrack.GET("/cars/{carId}/events", {
      params: { header, path: { carId }, query: { $filter: `id eq ${event.id}`, $expand: "car" } },
    }),
  );
  assert.deepEqual(
    events.map((one) => [one.type, one.dateTime, one.latitude, one.car?.name]),
    [["CarOpened", "2026-05-01T10:15:00", null, "Fetch's"]],
  );
  const refused = await keyrack.GET("/cars/{carId}", { params: { header, path: { carId: 2_147_483_647 } }, parseAs: "text" });
  assert.equal(refused.response.status, 404);
  place.close();
  console.log("openapi-fetch:", car.name, events[0]?.type, outcome.type);
}

void main();
