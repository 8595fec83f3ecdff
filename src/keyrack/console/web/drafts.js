// Keeps the entries of a form when the session expires. Sending a form [data-keep] keeps its entries in this tab. If the next page is the
// sign-in page, they wait there. They return once the same person is on the form's page again. The value of data-keep is the address that
// shows the form, unless it is this page's or its dialog's.
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

/** The form's id, also if one of its fields is named "id", as the check boxes of lists are. */
export function idOf(form) {
  return form.getAttribute("id");
}

/** The text of the chosen option: options that were found by typing are not in the page later. */
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

// The form being filled in, also if another request shows that the session has expired
let touched = null;
document.addEventListener("input", (event) => (touched = event.target.form ?? touched));
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-sign-in]");
  if (!link || !touched?.isConnected || !touched.matches("form[data-keep]")) return;
  keep(touched, true);
  if (touched.dataset.keep) link.search = new URLSearchParams({ next: touched.dataset.keep });
});

// Entries that were sent without a new page are no draft any more
document.addEventListener("htmx:after:request", (event) => {
  if (event.detail.ctx.response.status < 400 && !read()?.lapsed) sessionStorage.removeItem(KEY);
});

const signingIn = location.pathname.endsWith("/sign-in");
const draft = read();
if (draft && signingIn) {
  const next = document.querySelector("[name=next]");
  if (next && !draft.lapsed) next.value = draft.page; // the server only knows the page below a dialog
  sessionStorage.setItem(KEY, JSON.stringify({ ...draft, lapsed: true }));
} else if (draft && (!draft.lapsed || draft.person !== document.body.dataset.person)) sessionStorage.removeItem(KEY);

whenever("form[data-keep]", (form) => {
  const kept = read();
  if (!kept?.lapsed || signingIn || kept.form !== idOf(form) || kept.page !== pageOf(form)) return;
  sessionStorage.removeItem(KEY);
  fill(form, kept.values);
  trouble("restored");
});
