// The positions of all cars, kept up to date: all of them first, then the changes. Trackers report their own time, and some report late, so
// each read overlaps the last one. From time to time everything is read again.
import { kindOf, trouble } from "./errors.js";
import { visible } from "./text.js";

const FIELDS = "carId,name,licensePlate,latitude,longitude,lastSeen,ignition,isDriving,inUse";
const PLACED = "latitude ne null and longitude ne null";
const OVERLAP = 600_000; // ms by which a read overlaps the last one: the usual delay of trackers
const PAUSE = 1000; // least ms between two reads
const WEIGHT = 20; // pause as a multiple of the last read's duration: a large fleet is read less often
const UNTOLD = 20_000; // ms until a read without an update: the stream may be cut
const WHOLE = 300_000; // ms until all is read again

/** Dispatches "loaded" (everything is new) and "moved" (detail: new and changed cars). */
export class Positions extends EventTarget {
  constructor(frame) {
    super();
    this.frame = frame;
    this.address = frame.dataset.positions;
    this.cars = new Map();
    this.looked = 0; // when, by the server's clock
    this.read = 0; // when the whole was, by ours
    this.next = 0;
  }

  /** Reads everything for the first time, then the changes. */
  async start() {
    await this.look(true);
    this.frame.addEventListener("refresh", ({ detail }) => this.soon(detail.size > 1 || !detail.has("positions")));
    document.addEventListener("visibilitychange", () => document.hidden || this.soon());
    setInterval(() => this.soon(), UNTOLD);
  }

  /** Reads as soon as the pause is over. Further calls until then share this read. */
  soon(whole = false) {
    this.whole ||= whole;
    if (this.timer || document.hidden) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (document.hidden) return;
      const all = this.whole || Date.now() - this.read > WHOLE;
      this.whole = false;
      this.look(all).catch(() => {}); // the badge of live updates shows an unreachable server
    }, Math.max(0, this.next - Date.now()));
  }

  async look(whole) {
    const begun = Date.now();
    const filter = whole ? PLACED : `${PLACED} and lastSeen gt ${new Date(this.looked - OVERLAP).toISOString()}`;
    const query = new URLSearchParams({ $select: FIELDS, $filter: filter, $orderby: "naturalorder(name)" });
    const headers = { Accept: "application/json", "Customer-ID": document.body.dataset.customer };
    try {
      const answer = await fetch(`${this.address}?${query}`, { headers, cache: "no-store" });
      if (!answer.ok) {
        const kind = kindOf(answer.status);
        if (kind && kind !== this.said) trouble(kind, answer.headers.get("x-request-id") ?? "");
        this.said = kind; // once: repeated messages would scroll the page
        throw new Error(`positions: ${answer.status}`);
      }
      this.said = "";
      const rows = (await answer.json()).map((row) => ({ ...row, name: visible(row.name), licensePlate: visible(row.licensePlate) }));
      this.looked = Date.parse(answer.headers.get("Date")) || begun;
      if (whole) this.load(rows);
      else this.merge(rows);
    } finally {
      this.next = Date.now() + Math.max(PAUSE, WEIGHT * (Date.now() - begun));
    }
  }

  load(rows) {
    this.read = Date.now();
    this.cars = new Map(rows.map((row) => [row.carId, row]));
    this.dispatchEvent(new Event("loaded"));
  }

  merge(rows) {
    const other = rows.filter((row) => !same(row, this.cars.get(row.carId)));
    if (!other.length) return;
    const unknown = other.some((row) => !this.cars.has(row.carId));
    for (const row of other) this.cars.set(row.carId, row);
    const names = new Intl.Collator(document.documentElement.lang, { numeric: true });
    if (unknown) this.load([...this.cars.values()].sort((one, next) => names.compare(one.name, next.name)));
    else this.dispatchEvent(new CustomEvent("moved", { detail: other }));
  }
}

function same(one, other) {
  return other !== undefined && Object.keys(one).every((name) => one[name] === other[name]);
}

/** driving, ready (the ignition is on), parked; or stale and silent: not heard of for longer than the limits of this name, in days. */
export function stateOf(car, limits) {
  const age = ageOf(car);
  if (age > limits.silent) return "silent";
  if (age > limits.stale) return "stale";
  return car.isDriving ? "driving" : car.ignition ? "ready" : "parked";
}

/** The days since a car's last report. */
export function ageOf(car) {
  return car.lastSeen ? (Date.now() - Date.parse(car.lastSeen)) / 86_400_000 : Infinity;
}
