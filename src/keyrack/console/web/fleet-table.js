// The table "Cars in view": the content of the map, for reading and for the keyboard. A row stays the same element while its car is in
// view, so the focus stays while cars move.
import { putBadges } from "./fleet-badges.js";
import { inWords } from "./map-places.js";

const ROWS = 50;

export class FleetTable {
  constructor(holder, fleet) {
    this.holder = holder;
    this.fleet = fleet;
    this.body = holder.querySelector("tbody");
    this.region = this.body.closest(".table-region");
    this.note = holder.querySelector("[data-note]");
    this.pattern = holder.querySelector("template");
    this.rows = new Map([...this.body.rows].map((row) => [Number(row.dataset.car), row]));
    this.body.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-show]");
      if (button) fleet.choose(Number(button.closest("tr").dataset.car), true);
    });
  }

  /** Shows the first of these cars, by name. The chosen one is marked and always included. */
  show(cars, chosen) {
    const first = cars.slice(0, ROWS);
    const marked = cars.find((car) => car.carId === chosen);
    if (marked && !first.includes(marked)) first.unshift(marked);
    const wanted = first.map((car) => this.row(car));
    const kept = new Set(wanted);
    for (const [id, row] of this.rows) if (!kept.has(row)) (row.remove(), this.rows.delete(id));
    let next = this.body.firstElementChild;
    for (const row of wanted) {
      if (row === next) next = next.nextElementSibling;
      else this.body.insertBefore(row, next);
    }
    for (const row of wanted) row.toggleAttribute("aria-current", Number(row.dataset.car) === chosen);
    this.region.hidden = wanted.length === 0;
    this.count(cars.length);
  }

  row(car) {
    let row = this.rows.get(car.carId);
    if (!row) {
      row = this.pattern.content.firstElementChild.cloneNode(true);
      row.dataset.car = car.carId;
      const link = row.querySelector("a");
      link.href = `${this.fleet.frame.dataset.cars}/${car.carId}`;
      this.rows.set(car.carId, row);
    }
    put(row.querySelector("a bdi"), car.name);
    put(row.querySelector("[data-plate]"), car.licensePlate ?? "");
    putBadges(row.querySelector("[data-badges]"), car, this.fleet.limits);
    put(row.querySelector("[data-place]"), inWords(car.latitude, car.longitude, this.holder.dataset));
    const button = row.querySelector("[data-show]");
    button.hidden = !this.fleet.map;
    button.setAttribute("aria-label", this.holder.dataset.show.replace("{name}", car.name));
    return row;
  }

  count(cars) {
    const { none, one, some, more } = this.holder.dataset;
    const text = cars === 0 ? none : cars === 1 ? one : cars > ROWS ? more : some;
    const lang = document.documentElement.lang;
    put(this.note, text.replace("{shown}", ROWS).replace("{count}", cars.toLocaleString(lang)));
  }

  /** The number of cars in view, in words. */
  said() {
    return this.note.textContent;
  }

  reveal(id) {
    this.rows.get(id)?.scrollIntoView({ block: "nearest" });
  }
}

function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
