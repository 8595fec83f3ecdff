// [data-refresh="operations assignments"]: what shows these topics. When one of them has changed it gets the event "refresh", by which
// htmx fetches it again (hx-trigger="refresh"): once a second at most, and what was missed while the page was hidden as soon as it is
// shown. The event's detail is the set of the topics, all of its own after a gap.

const PAUSE = 1000; // ms between two refreshes of one element
const waiting = new Map(); // element -> the topics that it has yet to hear of
const last = new WeakMap();

const topicsOf = (element) => element.dataset.refresh.split(" ").filter(Boolean);

function refresh(element) {
  if (document.hidden) return;
  const topics = waiting.get(element);
  waiting.delete(element);
  if (!topics || !element.isConnected || element.querySelector("form[data-keep]")) return; // what is being filled in stays
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
