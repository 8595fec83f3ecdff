// Moves the focus when the page changes: to errors, and never to a missing element.
import { whenever } from "./arrivals.js";

// [data-focus]: the errors of a form, whether they were loaded or swapped in
whenever("[data-focus]", (element) => element.focus());

// A control that has replaced itself: its successor gets the focus, so keyboard users continue there
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
