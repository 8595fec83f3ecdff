// The plan [data-board]: one state machine for keys and pointer. Its result is a dialog with times filled in, never a change. Rows have
// data-car, days data-day; movable bars have data-change, data-start, data-end, data-last.
import { announce } from "./announce.js";
import { STOPS, at, board, column, days, go, here, rowOf, settle, stops, walk } from "./board-grid.js";
import { load } from "./dialog.js";
import { visible } from "./text.js";

const EDGE = 8; // px at each end of a bar that move only this end
const say = (text, values) => announce(Object.entries(values).reduce((said, [name, value]) => said.replace(`{${name}}`, value), text));

// The action in progress: {from, to} columns of a car's row; for a bar also bar, edge ("both", "start", "end") and its old place
let act = null;
let drag = null; // {cell or bar, edge, cell: where it began, moved}

/* The machine */

function begin(cell) {
  act = { row: rowOf(cell).id, from: column(cell), to: column(cell) };
  show(board().dataset.begun);
}

function lift(bar, edge) {
  const from = column(bar.closest("td"));
  const last = Number(bar.dataset.last);
  act = { bar: bar.id, edge, row: rowOf(bar).id, home: rowOf(bar).id, was: [from, last], by: 0, from, to: last };
  bar.classList.add("lifted");
  announce(board().dataset.lifted);
}

/** Moves to a cell: the other end of a new booking; for a bar its start, or the grabbed end. */
function reach(cell) {
  if (!act.bar) act.to = column(cell);
  else {
    act.by = column(cell) - act.was[act.edge === "end" ? 1 : 0];
    if (act.edge === "both") act.row = rowOf(cell).id;
    bound();
  }
  show(board().dataset.chosen);
}

/** Moves by days and rows, for the arrow keys. */
function push(by, rows) {
  act.by += by;
  const list = [...board().tBodies[0].rows];
  const row = list[list.findIndex((one) => one.id === act.row) + rows];
  if (act.edge === "both" && row) act.row = row.id;
  bound();
  show(board().dataset.chosen);
}

/** A bar keeps at least one day. */
function bound() {
  const [first, last] = act.was;
  const longest = last - first;
  if (act.edge === "start") act.by = Math.min(act.by, longest);
  if (act.edge === "end") act.by = Math.max(act.by, -longest);
  act.from = first + (act.edge === "end" ? 0 : act.by);
  act.to = last + (act.edge === "start" ? 0 : act.by);
}

function giveUp() {
  if (!act) return;
  clear();
  announce(board().dataset.back);
}

function clear() {
  document.querySelector(".lifted")?.classList.remove("lifted");
  act = null;
  show();
}

function commit() {
  const { row, from, to, bar, home, by, edge } = act;
  const car = document.getElementById(row).dataset.car;
  const known = bar && document.getElementById(bar);
  const address = new URL(known ? known.dataset.change : board().dataset.new, location.href);
  const add = (name, value) => value && address.searchParams.set(name, value);
  if (known) {
    if (edge !== "end") add("start", moved(known.dataset.start, by));
    if (edge !== "start") add("end", known.dataset.end ? moved(known.dataset.end, by) : edge === "end" && `${dayAt(to)}T23:59`);
    if (row !== home) add("car", car);
  } else {
    const [first, last] = [dayAt(Math.min(from, to)), dayAt(Math.max(from, to))];
    add("car", car);
    if (!board().dataset.now.startsWith(first)) add("start", `${first}T00:00`);
    add("end", `${last}T23:59`);
  }
  const focus = here;
  clear();
  load({ href: address.href, ariaBusy: null, isConnected: true, focus: () => (focus.isConnected ? focus : stops()[0])?.focus() });
}

/** A time of the person's clock, moved by days: the hour stays. A time that would leave the calendar stays as it is. */
function moved(time, by) {
  const date = new Date(`${time}Z`);
  date.setUTCDate(date.getUTCDate() + by);
  const text = date.toISOString();
  return /^(?!0000)\d{4}-/.test(text) ? text.slice(0, 16) : time; // the calendar of fields has the years 1 to 9999
}

/** The day of a column, also outside the window. */
function dayAt(place) {
  return moved(`${days()[0].dataset.day}T00:00`, place).slice(0, 10);
}

function show(words) {
  for (const cell of board()?.querySelectorAll("[aria-selected]") ?? []) cell.removeAttribute("aria-selected");
  if (!act) return;
  const row = document.getElementById(act.row);
  const [first, last] = [Math.min(act.from, act.to), Math.max(act.from, act.to)];
  for (let place = Math.max(first, 0); place <= last; place++) at(row, place)?.setAttribute("aria-selected", "true");
  const name = (place) => days()[place]?.dataset.name ?? dayAt(place);
  if (words) say(words, { car: visible(row.dataset.name), day: name(first), first: name(first), last: name(last) });
}

/* Keys */

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function key(event) {
  const element = event.target.closest(STOPS);
  if (!element || event.altKey || event.metaKey) return;
  const step = STEPS[event.key];
  const bar = element.closest(".bar[data-change]");
  if (event.key === "Escape" && act) giveUp();
  else if (event.key === "Enter" && act && (act.bar || element.matches("td"))) tapped(act.bar ? null : element);
  else if (event.key === "Enter" && element.matches("td")) tapped(element);
  else if (step && act?.bar) push(...step);
  else if (step && event.shiftKey && bar) {
    lift(bar, "both");
    push(...step);
  } else if (event.shiftKey || !walk(event, element)) return;
  else if (act && !act.bar && here.matches("td") && rowOf(here).id === act.row) reach(here);
  event.preventDefault();
}

/* The pointer */

/** Whether the person may make a booking here. */
function begins() {
  return board().dataset.new !== undefined;
}

/** A pressed cell, by Enter or by a click: the first one starts, the second one ends. */
function tapped(cell) {
  if (!act) return begins() && begin(cell);
  if (cell && !act.bar && rowOf(cell).id !== act.row) return begin(cell);
  if (cell) reach(cell);
  commit();
}

const cellUnder = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-board] td, [data-board] .bar");

/** The cell at a point, also below a bar. */
function cellOf(event) {
  const found = cellUnder(event);
  if (!found?.matches(".bar")) return found;
  const row = rowOf(found);
  return [...row.cells].slice(1).find((cell) => cell.getBoundingClientRect().right > event.clientX) ?? null;
}

function edgeOf(bar, event) {
  const { left, right } = bar.getBoundingClientRect();
  if (event.clientX - left < EDGE) return "start";
  return right - event.clientX < EDGE ? "end" : "both";
}

document.addEventListener("pointerdown", (event) => {
  const target = event.target.closest?.("[data-board] td, [data-board] .bar");
  if (!target || event.button !== 0 || event.target.closest("[data-move]")) return;
  const bar = target.matches(".bar") ? target : null;
  drag = { bar, edge: bar && edgeOf(bar, event), cell: cellOf(event), moved: false };
});

document.addEventListener("pointermove", (event) => {
  if (event.pointerType === "touch") return;
  const cell = (drag || act) && cellOf(event);
  if (!cell) return;
  if (drag && !drag.moved && cell !== drag.cell && event.buttons) {
    if (drag.bar ? !drag.bar.dataset.change : !begins()) return;
    drag.moved = true;
    if (!act && drag.bar) {
      lift(drag.bar, drag.edge);
      act.grip = column(drag.cell) - act.was[drag.edge === "end" ? 1 : 0];
    } else if (!act) begin(drag.cell);
  }
  if (act && (act.bar || rowOf(cell).id === act.row)) reach(act.grip ? (at(rowOf(cell), column(cell) - act.grip) ?? cell) : cell);
});

document.addEventListener("pointerup", (event) => {
  const { moved: wasMoved, bar, cell } = drag ?? {};
  drag = null;
  if (!cell) return;
  if (wasMoved) {
    addEventListener("click", stop, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", stop, { capture: true }));
    commit();
  } else if (!bar && cellOf(event) === cell) {
    go(cell);
    tapped(cell);
  }
});

document.addEventListener("pointercancel", () => (drag = null));

/** After a drag, the browser clicks the element under the pointer. */
function stop(event) {
  event.preventDefault();
  event.stopPropagation();
}

/* The menu Move of a bar */

const menu = document.getElementById("move-menu");
let of = null;

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-move]");
  if (!button) return;
  of = button.closest(".bar");
  const box = button.getBoundingClientRect();
  menu.showPopover();
  menu.style.inset = "auto";
  menu.style.top = `${Math.min(box.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
  menu.style.left = `${Math.max(8, Math.min(box.right, innerWidth) - menu.offsetWidth)}px`;
  menu.querySelector("button").focus();
});

menu?.addEventListener("click", (event) => {
  const edge = event.target.closest("[data-edge]")?.dataset.edge;
  menu.hidePopover();
  go(of.querySelector("a"));
  if (edge) lift(of, edge);
});

menu?.addEventListener("keydown", (event) => {
  const items = [...menu.querySelectorAll("button")];
  const place = items.indexOf(document.activeElement);
  const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: -1 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") {
    menu.hidePopover();
    go(of.querySelector("button"));
  } else if (next !== undefined) items.at(next % items.length).focus();
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.target.closest?.("[data-board]")) key(event);
});

/** Continues the action in progress after the plan was drawn again. */
function set() {
  if (!board()) return;
  settle();
  if (act && !document.getElementById(act.bar ?? act.row)) act = null;
  if (act?.bar) document.getElementById(act.bar).classList.add("lifted");
  show();
}

document.addEventListener("htmx:after:swap", set);
set();
