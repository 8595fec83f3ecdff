// [data-outcome="id"]: the result of asynchronous work. Live updates announce news, possibly before it can be read. If they are cut, it is
// polled with back-off, and after some time no more. A new result is announced (data-said), and the elements that it changes are refreshed.
import { announce } from "./announce.js";
import { whenever } from "./arrivals.js";

const SOON = 20, FIRST = 1000, LONGEST = 30_000; // milliseconds
const RECENT = 5000; // ms for which news may concern an element that just arrived
const MOST = 40; // polls without news
const times = new Map(); // id -> polls since the last news
let heard = -RECENT; // time of the last news

/** Polls again after a delay, also after a failure. A replaced element polls on its own. */
function wait(outcome) {
  const asked = times.get(outcome.id) ?? 0;
  if (asked === MOST) return;
  const missed = asked === 0 && performance.now() - heard < RECENT;
  setTimeout(() => {
    if (!outcome.isConnected) return;
    times.set(outcome.id, asked + 1);
    outcome.dispatchEvent(new Event("again"));
    wait(outcome);
  }, missed ? SOON : Math.min(FIRST * 2 ** asked, LONGEST));
}

whenever("[data-outcome]", (outcome) => {
  // On a phone, the focused element may have moved it out of view
  if (outcome.closest("#asked")) setTimeout(() => outcome.scrollIntoView({ block: "nearest" }));
  if (outcome.dataset.outcome === "Pending") return wait(outcome);
  times.delete(outcome.id);
  if (outcome.dataset.said) announce(outcome.dataset.said);
  document.dispatchEvent(new CustomEvent("keyrack:changed-assignments"));
});

document.addEventListener("keyrack:changed-operations", () => {
  times.clear();
  heard = performance.now();
});
