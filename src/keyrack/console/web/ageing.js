// [data-fresh-until="time"]: what it shows is stale from then on, so it is fetched again (hx-trigger="refresh") although nothing has changed.

const LOOK = 30_000; // ms between two looks

setInterval(() => {
  for (const element of document.hidden ? [] : document.querySelectorAll("[data-fresh-until]")) {
    if (Date.parse(element.dataset.freshUntil) <= Date.now()) element.dispatchEvent(new Event("refresh"));
  }
}, LOOK);
