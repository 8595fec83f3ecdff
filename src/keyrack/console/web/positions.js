// Where all cars are, kept up to date: the whole at first, then what has changed since. Units tell their own time and some tell it
// late, so each look overlaps the last one, and from time to time the whole is read again.
import { kindOf, trouble } from "./errors.js";
import { visible } from "./text.js";

const FIELDS = "carId,name,licensePlate,latitude,longitude,lastSeen,ignition,isDriving,inUse";
const PLACED = "latitude ne null and longitude ne null";
const OVERLAP = 600_000; // ms that a look reaches behind the last one: as late as units commonly tell
const PAUSE = 1000; // ms between two looks, at least
const WEIGHT = 20; // times as long as a look has taken nobody asks again: a large fleet is asked less often
const UNTOLD = 20_000; // ms until one looks unasked: news may be cut
const WHOLE = 300_000; // ms until all is read again

/** Tells of "loaded" (all is new) and "moved" (detail: the cars that are new or other than before). */
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

  /** Reads all for the first time, and goes on from there. */
  async start() {
    await this.look(true);
    this.frame.addEventListener("refresh", ({ detail }) => this.soon(detail.size > 1 || !detail.has("positions")));
    document.addEventListener("visibilitychange", () => document.hidden || this.soon());
    setInterval(() => this.soon(), UNTOLD);
  }

  /** Looks as soon as it is time; all that is asked for meanwhile is one look. */
  soon(whole = false) {
    this.whole ||= whole;
    if (this.timer || document.hidden) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      if (document.hidden) return;
      const all = this.whole || Date.now() - this.read > WHOLE;
      this.whole = false;
      this.look(all).catch(() => {}); // the sign of live updates says when the server is out of reach
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
        this.said = kind; // once: a page that looks again and again would scroll away from what is read
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

/** How many days ago a car was heard of. */
export function ageOf(car) {
  return car.lastSeen ? (Date.now() - Date.parse(car.lastSeen)) / 86_400_000 : Infinity;
}
