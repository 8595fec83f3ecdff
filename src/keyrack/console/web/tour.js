// [data-tour]: the first steps on Today, beside the page: nothing is dimmed, the focus stays, and a person who returns finds the same step.
// #tour in the address, as in Help, starts it again.
//
// The progress is kept in the browser, by the person's name. It is not a preference of the account: it needs no request before the first
// page, and seeing the tour again in another browser does no harm. Without storage in the browser, the tour starts only on request.
import { announce } from "./announce.js";

const DONE = "done";
const KEY = `keyrack-tour:${document.body.dataset.person}`;
const tour = document.querySelector("[data-tour]");
const steps = [...(tour?.querySelectorAll("[data-tour-step]") ?? [])];
const part = (name) => tour.querySelector(`[data-tour-${name}]`);
let step = 0;

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "0";
  } catch {
    return DONE;
  }
}

function keep(how) {
  try {
    localStorage.setItem(KEY, how);
  } catch {
    // it is not kept, see above
  }
}

function go(number) {
  step = number;
  keep(String(step));
  const last = step === steps.length - 1;
  steps.forEach((one, place) => (one.hidden = place !== step));
  part("number").textContent = part("number").dataset.text.replace("{number}", step + 1).replace("{all}", steps.length);
  part("next").textContent = last ? tour.dataset.end : tour.dataset.next;
  if (!step && document.activeElement === part("back")) part("next").focus();
  part("back").hidden = !step;
  mark([...document.querySelectorAll(steps[step].dataset.place)].find((place) => place.checkVisibility()));
}

function mark(place) {
  document.querySelector(".toured")?.classList.remove("toured");
  place?.classList.add("toured");
  place?.scrollIntoView({ block: "nearest" }); // on a small screen it may be below the card
}

function say() {
  const words = [document.getElementById("tour-title"), part("number"), ...steps[step].children];
  announce(words.map((each) => each.textContent).join(". "));
}

function turn(by) {
  go(step + by);
  say();
}

function close() {
  const within = tour.contains(document.activeElement);
  tour.hidden = true;
  mark(null);
  keep(DONE);
  if (within) document.getElementById("main").focus({ preventScroll: true });
}

function begin() {
  const asked = location.hash === "#tour";
  if (!asked && (tour.dataset.tour !== "at-once" || !(kept() in steps))) return;
  tour.hidden = false;
  go(asked ? 0 : Number(kept()));
  if (asked) {
    history.replaceState(history.state, "", location.pathname + location.search); // a reload does not start it again
    document.getElementById("tour-title").focus();
  } else addEventListener("load", say, { once: true });
}

if (tour) {
  part("back").addEventListener("click", () => turn(-1));
  part("next").addEventListener("click", () => (step === steps.length - 1 ? close() : turn(1)));
  part("close").addEventListener("click", close);
  tour.addEventListener("keydown", (event) => event.key === "Escape" && close());
  begin();
}
for (const link of document.querySelectorAll("[data-tour-again]")) link.classList.add("there");
