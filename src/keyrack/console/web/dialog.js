// A link [data-dialog], which has the role of a button, opens its page in a dialog: the part [data-dialog-page], whose heading names the
// dialog. The back button and Escape close it, and the focus returns to the link. Without this script the link leads to the page. data-page
// of the dialog is the address of its content.
import { kindOf, trouble } from "./errors.js";

const FIELD = ".dialog-body :is(input:not([type=hidden]), select, textarea):not([hidden], [hidden] *)";
let opened = null; // { dialog, link }
let made = 0;

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-dialog]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    load(link);
  } else if (opened && event.target.closest?.("[data-close]") && opened.dialog.contains(event.target)) {
    event.preventDefault();
    opened.dialog.requestClose?.() ?? opened.dialog.close();
  }
});

// A link with the role of a button also reacts to the space bar
document.addEventListener("keydown", (event) => {
  if (event.key !== " " || !event.target.matches?.("a[role=button]")) return;
  event.preventDefault();
  event.target.click();
});

/** Shows the page of a link, or of any focusable element with an href. A link in the dialog changes its page. */
export async function load(link) {
  if (link.ariaBusy === "true") return;
  link.ariaBusy = "true";
  try {
    const [response] = await Promise.all([fetch(link.href, { headers: { Accept: "text/html" } }), import("./closed-forms.js")]);
    const signedOut = response.redirected && new URL(response.url).pathname.endsWith("/sign-in");
    const kind = signedOut ? "lapsed" : kindOf(response.status);
    if (kind) return trouble(kind, response.headers.get("x-request-id") ?? "");
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = page.querySelector("[data-dialog-page]");
    if (part) open(part, link);
    else location.assign(link.href);
  } catch {
    trouble("unreachable");
  } finally {
    link.ariaBusy = null;
  }
}

function open(part, link) {
  const dialog = opened?.dialog ?? document.createElement("dialog");
  dialog.className = "dialog";
  dialog.dataset.page = new URL(link.href).pathname + new URL(link.href).search;
  dialog.replaceChildren(...document.importNode(part, true).childNodes);
  const title = document.createElement("h2");
  const heading = dialog.querySelector("h1");
  title.id = `dialog-title-${++made}`;
  title.append(...heading.childNodes);
  heading.replaceWith(title);
  title.tabIndex = -1;
  dialog.setAttribute("aria-labelledby", title.id);
  if (opened) {
    globalThis.htmx?.process(dialog);
    queueMicrotask(() => first(dialog, title).focus());
    return;
  }
  document.body.append(dialog);
  opened = { dialog, link };
  dialog.addEventListener("close", () => closed(dialog), { once: true });
  dialog.addEventListener("click", (event) => event.target === dialog && outside(event, dialog) && dialog.close());
  globalThis.htmx?.process(dialog);
  history.pushState({ dialog: true }, "");
  queueMicrotask(() => {
    first(dialog, title).autofocus = true; // otherwise the browser focuses the close button, which comes first
    document.activeElement?.blur(); // otherwise it returns the focus before the step back removes it
    dialog.showModal();
  });
}

/** Where one begins: what the page says, else the first field, else the heading, to read on from there. What a script makes of
    fields is there a microtask after them. */
function first(dialog, title) {
  return dialog.querySelector("[autofocus]") ?? dialog.querySelector(FIELD) ?? title;
}

/** Whether a click was on the backdrop: it arrives at the dialog too. */
function outside(event, dialog) {
  const box = dialog.getBoundingClientRect();
  return event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom;
}

async function closed(dialog) {
  const { link } = opened;
  opened = null;
  dialog.remove();
  if (history.state?.dialog) await stepBack();
  if (link.isConnected) link.focus();
}

let stepping = false; // going back from the history entry of a closed dialog
let ours = false; // the last step closed a dialog or followed that: the page below has not changed

/** Removes the dialog from the history. A step removes the focus, so this waits for its end. */
async function stepBack() {
  stepping = true;
  if (globalThis.navigation?.back) await navigation.back().finished.catch(() => {});
  else history.back();
}

addEventListener("popstate", () => {
  ours = opened !== null || stepping;
  stepping = false;
  opened?.dialog.close();
});

document.addEventListener("htmx:before:history:restore", (event) => {
  if (ours) event.preventDefault();
});
