// [data-fresh-until="time"]: the content is stale from this time on, so it is fetched again (hx-trigger="refresh") even without a change.

const LOOK = 30_000; // ms between two looks

setInterval(() => {
  for (const element of document.hidden ? [] : document.querySelectorAll("[data-fresh-until]")) {
    if (Date.parse(element.dataset.freshUntil) <= Date.now()) element.dispatchEvent(new Event("refresh"));
  }
}, LOOK);
