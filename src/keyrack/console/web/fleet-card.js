// The card on the map: the chosen car, or the cars at one place that the map cannot separate.
import { putBadges } from "./fleet-badges.js";
import { inWords } from "./map-places.js";

const LISTED = 50;

export class FleetCard {
  constructor(frame, fleet) {
    this.frame = frame;
    this.fleet = fleet;
    this.card = frame.querySelector("[data-card]");
    this.title = this.card.querySelector("[data-card-title]");
    this.body = this.card.querySelector("[data-card-body]");
    this.card.addEventListener("click", ({ target }) => {
      if (target.closest("[data-card-close]")) this.leave();
      const other = target.closest("[data-choose]");
      if (other) fleet.choose(Number(other.dataset.choose), true);
    });
    this.card.addEventListener("keydown", (event) => event.key === "Escape" && this.leave());
  }

  /** Shows a car, or its new state. */
  car(car) {
    const known = this.shown === car.carId;
    if (!known) {
      const link = Object.assign(document.createElement("a"), { dir: "auto", className: "long", href: `${this.frame.dataset.cars}/${car.carId}` });
      this.title.replaceChildren(link);
      this.body.replaceChildren(this.frame.querySelector("template[data-card-car]").content.cloneNode(true));
      this.body.querySelector("[data-open]").href = link.href;
    }
    this.shown = car.carId;
    this.title.firstChild.textContent = car.name;
    const put = (name, text) => { this.body.querySelector(`[data-card-${name}]`).textContent = text; };
    put("plate", car.licensePlate ?? "");
    put("place", inWords(car.latitude, car.longitude, this.fleet.table.holder.dataset));
    put("use", car.inUse ? this.frame.dataset.inUse : this.frame.dataset.free);
    putBadges(this.body.querySelector("[data-badges]"), car, this.fleet.limits);
    this.card.hidden = false;
  }

  /** Shows the cars of a cluster. */
  list(cars) {
    this.shown = null;
    this.title.textContent = this.frame.dataset.together.replace("{count}", cars.length);
    const list = document.createElement("ul");
    list.className = "map-card-list";
    for (const car of cars.slice(0, LISTED)) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "button bare long", dir: "auto", textContent: car.name });
      button.dataset.choose = car.carId;
      list.appendChild(document.createElement("li")).append(button);
    }
    this.body.replaceChildren(list);
    this.card.hidden = false;
    list.querySelector("button").focus();
  }

  close() {
    this.card.hidden = true;
    this.shown = null;
  }

  /** Closes the card by the person: the focus moves to the car in the table, or to the map. */
  leave() {
    const row = this.fleet.table.rows.get(this.shown);
    this.fleet.choose(null);
    (row?.querySelector("[data-show]") ?? this.frame.querySelector("canvas"))?.focus();
  }

  /** The card in words, for screen readers. */
  said() {
    return [this.title, ...this.body.querySelectorAll("p")].map((part) => part.textContent.trim()).filter(Boolean).join(", ");
  }
}
