// Moves the focus when the page changes: to errors, and never to a missing element.
import { whenever } from "./arrivals.js";

// [data-focus]: the errors of a form, whether they were loaded or swapped in
whenever("[data-focus]", (element) => element.focus());

// A control that has replaced itself: its successor gets the focus, so keyboard users continue there. Each swap is followed on its own,
// because a live update may begin between the begin and the end of another swap
const focused = new WeakSet();
document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  if (ctx.target?.contains?.(document.activeElement)) focused.add(ctx);
});
document.addEventListener("htmx:after:swap", (event) => {
  if (!focused.has(event.detail.ctx)) return;
  if (document.activeElement && document.activeElement !== document.body) return;
  const place = document.getElementById(event.detail.ctx.target?.id);
  place?.querySelector("[data-focus], [autofocus], input:not([type=hidden]), select, textarea, a[href], button")?.focus();
});
