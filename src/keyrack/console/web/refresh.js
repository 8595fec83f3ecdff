// [data-refresh="operations assignments"]: an element with these topics. When one of them changes, it gets the event "refresh", and htmx
// fetches it again (hx-trigger="refresh"): at most once a second, and after a hidden page is shown. The detail of the event is the set of
// the topics, all of them after a gap.

const PAUSE = 1000; // least ms between two refreshes of one element
const waiting = new Map(); // element -> topics with a pending refresh
const last = new WeakMap();

const topicsOf = (element) => element.dataset.refresh.split(" ").filter(Boolean);

function refresh(element) {
  if (document.hidden) return;
  const topics = waiting.get(element);
  waiting.delete(element);
  if (!topics || !element.isConnected || element.querySelector("form[data-keep]")) return; // a form being filled in stays
  last.set(element, Date.now());
  element.dispatchEvent(new CustomEvent("refresh", { detail: topics }));
}

document.addEventListener("keyrack:changed", ({ detail: topic }) => {
  for (const element of document.querySelectorAll("[data-refresh]")) {
    const topics = topicsOf(element).filter((own) => topic === "gap" || own === topic);
    if (!topics.length) continue;
    const known = waiting.get(element);
    waiting.set(element, new Set([...(known ?? []), ...topics]));
    if (!known) setTimeout(() => refresh(element), Math.max(0, PAUSE - (Date.now() - (last.get(element) ?? 0))));
  }
});

document.addEventListener("visibilitychange", () => [...waiting.keys()].forEach(refresh));
