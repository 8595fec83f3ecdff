// Nothing that was filled in is lost when a session has lapsed. Sending a form [data-keep] keeps what it holds in this tab; if the
// next page is the one for signing in, it waits there, and is put back once the same person is on the form's page again. The value of
// data-keep is the address that shows the form, where it is neither this page's nor that of the dialog that it is in.
import { pageOf, trouble } from "./errors.js";
import { whenever } from "./arrivals.js";

const KEY = "keyrack-draft";
const SECRET = new Set(["password", "file", "hidden", "secret"]); // types of fields, and a name

function keep(form, lapsed) {
  const draft = { page: pageOf(form), form: idOf(form), person: document.body.dataset.person, lapsed, values: valuesOf(form) };
  sessionStorage.setItem(KEY, JSON.stringify(draft));
}

export function valuesOf(form) {
  const fields = [...form.elements].filter((field) => field.name && !SECRET.has(field.type) && !SECRET.has(field.name) && field.type !== "submit");
  return fields.map((field) => [field.name, field.value, field.type === "checkbox" || field.type === "radio" ? field.checked : null, shownBy(field)]);
}

/** Its id also where a field of it is named so, as the boxes of a list's rows are. */
export function idOf(form) {
  return form.getAttribute("id");
}

/** The text of what a select shows: its options may have been found by typing, and are not in the page then. */
function shownBy(field) {
  return field.selectedOptions?.[0]?.textContent ?? null;
}

export function fill(form, values) {
  for (const [name, value, checked, shown] of values) {
    const fields = [...form.elements].filter((field) => field.name === name);
    const field = checked === null ? fields[0] : fields.find((one) => one.value === value);
    if (!field) continue;
    if (checked !== null) field.checked = checked;
    else {
      if (shown !== null && ![...field.options].some((option) => option.value === value)) field.add(new Option(shown, value));
      field.value = value;
    }
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

export function read(key = KEY) {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}

document.addEventListener("submit", (event) => {
  if (event.target.matches("form[data-keep]")) keep(event.target, false);
});
document.addEventListener("keyrack:lapsed", (event) => {
  if (event.target.matches("form[data-keep]")) keep((touched = event.target), true);
});

// The one that is being filled in, also when it is not its sending that shows that the session has lapsed
let touched = null;
document.addEventListener("input", (event) => (touched = event.target.form ?? touched));
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-sign-in]");
  if (!link || !touched?.isConnected || !touched.matches("form[data-keep]")) return;
  keep(touched, true);
  if (touched.dataset.keep) link.search = new URLSearchParams({ next: touched.dataset.keep });
});

// What has come through without a new page is no draft any more
document.addEventListener("htmx:after:request", (event) => {
  if (event.detail.ctx.response.status < 400 && !read()?.lapsed) sessionStorage.removeItem(KEY);
});

const signingIn = location.pathname.endsWith("/sign-in");
const draft = read();
if (draft && signingIn) {
  const next = document.querySelector("[name=next]");
  if (next && !draft.lapsed) next.value = draft.page; // the server knows the page beneath a dialog alone
  sessionStorage.setItem(KEY, JSON.stringify({ ...draft, lapsed: true }));
} else if (draft && (!draft.lapsed || draft.person !== document.body.dataset.person)) sessionStorage.removeItem(KEY);

whenever("form[data-keep]", (form) => {
  const kept = read();
  if (!kept?.lapsed || signingIn || kept.form !== idOf(form) || kept.page !== pageOf(form)) return;
  sessionStorage.removeItem(KEY);
  fill(form, kept.values);
  trouble("restored");
});
