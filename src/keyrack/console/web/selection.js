// Rows that are selected for bulk actions. [data-selection] contains the table and the bar: the check box [data-select-all], one check box
// [data-select] per row, and the bar [data-bulk], [data-shown] while rows are selected. The bar has [data-count] and may have
// [data-select-matching]: all matches, also on other pages. data-said: "{count} selected".
import { announce } from "./announce.js";
import { whenever } from "./arrivals.js";

const boxes = (area) => [...area.querySelectorAll("input[data-select]")];
const last = new WeakMap();

function show(area, aloud) {
  const all = boxes(area);
  const count = all.filter((box) => box.checked).length;
  const text = area.dataset.said.replace("{count}", count);
  const head = area.querySelector("input[data-select-all]");
  if (head) {
    head.checked = count > 0 && count === all.length;
    head.indeterminate = count > 0 && count < all.length;
  }
  const bar = area.querySelector("[data-bulk]");
  if (bar) {
    bar.toggleAttribute("data-shown", count > 0);
    const matching = bar.querySelector("[data-select-matching]");
    if (matching && !count) matching.checked = false; // otherwise the choice of all matches would be invisible
    bar.querySelector("[data-count]").textContent = text;
  }
  if (aloud) announce(text);
}

/** Shift also selects all rows between the last one and this one. */
function stretch(area, box) {
  const all = boxes(area);
  const from = all.indexOf(last.get(area));
  const to = all.indexOf(box);
  if (from < 0) return;
  for (const between of all.slice(Math.min(from, to), Math.max(from, to) + 1)) between.checked = box.checked;
}

document.addEventListener("click", (event) => {
  const area = event.target.closest?.("[data-selection]");
  if (!area) return;
  const box = event.target;
  if (box.matches("input[data-select-all]")) boxes(area).forEach((other) => (other.checked = box.checked));
  else if (box.matches("input[data-select]")) {
    if (event.shiftKey) stretch(area, box);
    last.set(area, box);
  } else if (event.target.closest("[data-select-none]")) {
    boxes(area).forEach((other) => (other.checked = false));
    area.querySelector("input[data-select-all]")?.focus();
  } else return;
  show(area, true);
});

// Enter in a check box would send the form with the first action
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches?.("input[data-select], input[data-select-all]")) event.preventDefault();
});

// The browser restores ticks after a reload
whenever("[data-selection]", (area) => show(area, false));
const showAll = () => document.querySelectorAll("[data-selection]").forEach((area) => show(area, false));
addEventListener("pageshow", showAll);
// A reloaded list keeps its ticks, but not their announced number
document.addEventListener("htmx:after:swap", showAll);
