// Books many times at once: node flaky_bookings.ts MODULE. The connection breaks for every second response.
import { readFileSync } from "node:fs";
import { skipPauses } from "./fakes.ts";

interface Given {
  url: string;
  apiKey: string;
  customerId: number;
  clientId: string;
  clientSecret: string;
  carId: number;
  userId: number;
  count: number;
}

const { Keyrack } = (await import(process.argv[2]!)) as typeof import("keyrack-client");
const { carId, userId, count, ...options } = JSON.parse(readFileSync(0, "utf8")) as Given;
skipPauses();
// Half of the attempts fail by chance, so the default number would leave one booking in 32 without a response
const keyrack = new Keyrack({ ...options, attempts: 40, timeout: 1000 });
const days = Array.from({ length: count }, (_, day) => ({
  carId,
  userId,
  start: new Date(Date.UTC(2027, 0, 1 + day, 8)),
  end: new Date(Date.UTC(2027, 0, 1 + day, 18)),
}));
const booked = await Promise.all(days.map((day) => keyrack.assignments.create(day, { wait: 600 })));
console.log(JSON.stringify([...new Set(booked.map((operation) => operation.assignmentId))].length));
