// The state of a car and the time of its last report, in words. The words are templates of the page.
import { ageOf } from "./positions.js";
import { minuteOf } from "./minutes.js";

function badge(name) {
  return document.querySelector(`template[data-badge="${name}"]`).content.firstElementChild.cloneNode(true);
}

/** Puts both into a place; what stands there already and is still right stays. `limits` are those of stateOf. What is stale was so. Only
    long silence is a sign of its own: of a fleet that reports, each row would have one. */
export function putBadges(place, car, limits) {
  const age = ageOf(car);
  const [silent, stale] = [age > limits.silent, car.lastSeen && age > limits.stale];
  const told = `${car.isDriving} ${car.ignition} ${car.lastSeen} ${silent} ${stale}`;
  if (place.dataset.told === told) return;
  place.dataset.told = told;
  const state = car.isDriving ? "driving" : car.ignition ? "ready" : car.lastSeen ? "parked" : "unknown";
  const seen = badge(!car.lastSeen ? "never" : silent ? "long" : "lately");
  const time = seen.querySelector("time");
  if (time) {
    time.dateTime = car.lastSeen;
    time.textContent = minuteOf(car.lastSeen, document.querySelector("[data-zone]").dataset.zone);
  }
  place.replaceChildren(badge(stale ? `${state}-stale` : state), " ", seen);
}
