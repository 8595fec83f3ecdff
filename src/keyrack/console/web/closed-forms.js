// Keeps the entries of a dialog that is closed by Escape, the back button or a click beside it. The same dialog, by its address
// (data-page), shows them again. [data-discard] empties the form. dialog.js loads this module before its first dialog.
import { fill, idOf, read, valuesOf } from "./drafts.js";
import { trouble } from "./errors.js";
import { whenever } from "./arrivals.js";

const KEY = "keyrack-closed-forms"; // address and form -> entries of a closed dialog
const FOR = 12 * 3_600_000; // ms for which they are kept

// Dialogs with entries that were not sent
const filled = new WeakSet();
const dialogOf = (element) => element?.closest?.("form[data-keep]") && element.closest("dialog");
const placeOf = (dialog, form) => `${dialog.dataset.page} ${idOf(form)}`;

/** The kept entries of this person. Those of other people are removed with the next draft. */
function readClosed() {
  const oldest = Date.now() - FOR;
  const isMine = ([, { at, person }]) => at > oldest && person === document.body.dataset.person;
  return Object.fromEntries(Object.entries(read(KEY) ?? {}).filter(isMine));
}

for (const name of ["input", "change"]) {
  document.addEventListener(name, ({ target }) => {
    const dialog = dialogOf(target);
    if (dialog) filled.add(dialog);
  });
}
document.addEventListener("click", ({ target }) => {
  if (target.closest?.("[data-discard]")) filled.delete(target.closest("dialog"));
});
// After a rejection, the form has the sent entries
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  if (ctx.request.method !== "GET" && ctx.response.status < 400) filled.delete(dialogOf(ctx.sourceElement));
});
document.addEventListener("close", ({ target: dialog }) => {
  const form = dialog.querySelector?.("form[data-keep]");
  if (!form || !filled.has(dialog)) return;
  const draft = { at: Date.now(), person: document.body.dataset.person, values: valuesOf(form) };
  sessionStorage.setItem(KEY, JSON.stringify({ ...readClosed(), [placeOf(dialog, form)]: draft }));
}, true);

whenever("dialog form[data-keep]", (form) => {
  const dialog = form.closest("dialog");
  const { [placeOf(dialog, form)]: kept, ...others } = readClosed();
  if (!kept || filled.has(dialog)) return;
  sessionStorage.setItem(KEY, JSON.stringify(others));
  fill(form, kept.values);
  filled.add(dialog);
  queueMicrotask(() => trouble("kept")); // the dialog is opened a microtask after it is in the page
});
