// [data-outcome]: what became of something that takes its time, by its id. Live updates tell when there is something new, which may
// be before it is in the page. Should they be cut, it is asked for again, more and more seldom, and some time nobody asks any more.
// Once it is there, it is said (data-said), and whoever shows what it has changed looks again.
import { announce } from "./announce.js";
import { whenever } from "./arrivals.js";

const SOON = 20, FIRST = 1000, LONGEST = 30_000; // milliseconds
const RECENT = 5000; // for how long news may have been of what came into the page only now
const MOST = 40; // times without anything new
const times = new Map(); // id -> how often it was asked for since there was something new
let heard = -RECENT; // when there was

/** Asks again after a while, also where nothing has come of it; what has come in its place asks for itself. */
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
  // On a phone what took the focus may have taken it out of view
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
