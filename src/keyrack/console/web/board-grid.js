// The plan [data-board] as an ARIA grid: Tab leads to one stop, and the arrow keys move from there. Rows are cars, columns are days. Stops
// are the names of cars, the cells, and the controls of bars.

export const STOPS = "th[scope=row] a, td, .bar > a, .bar > button";
export const board = () => document.querySelector("[data-board]");
export const days = () => [...board().tHead.rows[0].cells].slice(1);
export const rowOf = (element) => element.closest("tr");
export const column = (cell) => cell.cellIndex - 1;
export const at = (row, place) => row?.cells[place + 1];
export const stops = (row) => [...(row ?? board()).querySelectorAll(STOPS)];
export let here = null; // the stop of Tab

function rove(element) {
  if (here && here !== element) here.tabIndex = -1;
  here = element;
  here.tabIndex = 0;
}

export function go(element) {
  if (!element) return;
  rove(element);
  element.focus();
}

/** Makes one stop reachable by Tab, after the plan was drawn again. */
export function settle() {
  const lost = here && !here.isConnected;
  for (const link of board().querySelectorAll("a, button")) if (link !== here) link.tabIndex = -1;
  if (!here || lost) rove(board().querySelector("tbody td.today") ?? board().querySelector("tbody td"));
}

/** Moves the focus by a key; returns whether it moved. */
export function walk(event, element) {
  const row = rowOf(element);
  const rows = [...board().tBodies[0].rows];
  const list = stops(row);
  const place = list.indexOf(element);
  const cell = element.closest("td, th");
  const other = (by) => rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + by))];
  const to = (other) => (cell.matches("th") ? other.querySelector("th a") : other.cells[cell.cellIndex]);
  const ways = {
    ArrowLeft: () => list[place - 1],
    ArrowRight: () => list[place + 1],
    ArrowUp: () => to(other(-1)),
    ArrowDown: () => to(other(1)),
    PageUp: () => to(other(-10)),
    PageDown: () => to(other(10)),
    Home: () => (event.ctrlKey ? stops(rows[0])[0] : list[0]),
    End: () => (event.ctrlKey ? stops(rows.at(-1)).at(-1) : list.at(-1)),
  };
  if (!ways[event.key]) return false;
  go(ways[event.key]());
  return true;
}

document.addEventListener("focusin", (event) => {
  const stop = event.target.closest?.("[data-board]") && event.target.closest(STOPS);
  if (stop && stop !== here) rove(stop);
});
