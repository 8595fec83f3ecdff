// Where the focus goes when the page changes: to what has gone wrong, and never to nowhere.
import { whenever } from "./arrivals.js";

// [data-focus]: the errors of a form, whether the page was loaded with them or they were swapped in
whenever("[data-focus]", (element) => element.focus());

// A control that has replaced itself: its successor has the focus, so that who uses the keyboard goes on from there
let held = false;
document.addEventListener("htmx:before:swap", (event) => {
  held = event.detail.ctx.target?.contains?.(document.activeElement) ?? false;
});
document.addEventListener("htmx:after:swap", (event) => {
  if (!held) return;
  if (document.activeElement && document.activeElement !== document.body) return;
  const place = document.getElementById(event.detail.ctx.target?.id);
  place?.querySelector("[data-focus], [autofocus], input:not([type=hidden]), select, textarea, a[href], button")?.focus();
});
