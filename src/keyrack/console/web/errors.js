// Reports failed requests of scripts, in words at the top of the page or of the dialog above it. The words are templates of the page
// (trouble.html). An error of a form (422) is shown in the form instead.

const KINDS = { 401: "lapsed", 403: "forbidden", 404: "gone", 410: "gone", 429: "busy", 502: "unreachable", 503: "busy", 504: "unreachable" };

/**
 * Says what happened. kind: lapsed, forbidden, gone, busy, failed, unreachable, restored, kept; number: the id of the request at the
 * server, for "failed"; told: the server's answer, whose own alert says more if there is one.
 */
export function trouble(kind, number = "", told = "") {
  const place = document.querySelector("dialog[open] [data-trouble]") ?? document.getElementById("trouble");
  const words = document.getElementById(`trouble-${kind}`);
  if (!place || !words) return;
  const own = kind !== "lapsed" && told && new DOMParser().parseFromString(told, "text/html").querySelector(".alert");
  const shown = own || words.content.cloneNode(true);
  const said = shown.querySelector("[data-number]");
  if (said) said.textContent = number;
  place.replaceChildren(shown);
  place.dataset.kind = kind;
  const signIn = place.querySelector("[data-sign-in]"); // its address has a base only in the page
  if (signIn) signIn.search = new URLSearchParams({ next: searched() ?? pageOf(document.querySelector("dialog[open] form[data-keep]")) });
  place.scrollIntoView({ block: "nearest" });
}

/** The address that shows a form: that of data-keep, the page of its dialog, or this page. */
export function pageOf(form) {
  if (form?.dataset.keep) return form.dataset.keep;
  return form?.closest("dialog, [data-dialog-page]") ? new URL(form.action).pathname : location.pathname + location.search;
}

/** The address of the list with the typed search, if it was changed since the list was drawn. */
function searched() {
  const field = document.querySelector("#main form[role=search] input[name=q]");
  if (!field || field.value === field.defaultValue || document.querySelector("dialog[open]")) return null;
  return `${new URL(field.form.action).pathname}?${new URLSearchParams(new FormData(field.form))}`;
}

/** The kind of failure of a status, or "" for a success. */
export function kindOf(status) {
  return KINDS[status] ?? (status >= 500 ? "failed" : "");
}

document.addEventListener("htmx:response:error", (event) => {
  const { response, sourceElement, text } = event.detail.ctx;
  const kind = kindOf(response.status);
  if (kind === "lapsed") sourceElement?.closest?.("form")?.dispatchEvent(new Event("keyrack:lapsed", { bubbles: true }));
  if (kind) trouble(kind, response.headers.get("x-request-id") ?? "", text);
});

document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx) trouble("unreachable");
});

// Live updates are the first to notice
document.addEventListener("keyrack:signed-out", () => trouble("lapsed"));

// A successful request clears messages about the connection. The message about restored entries stays until the form is sent
document.addEventListener("htmx:after:request", (event) => {
  const { request, response } = event.detail.ctx;
  if (response.status >= 400) return;
  for (const place of document.querySelectorAll("#trouble, [data-trouble]")) {
    if (!["restored", "kept"].includes(place.dataset.kind) || request.method !== "GET") place.replaceChildren();
  }
});
