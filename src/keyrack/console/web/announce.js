// Announces a text to screen readers: in the polite region of the page, or of the dialog above it.

/** @param {string} text the announcement; the same text is announced again */
export function announce(text) {
  const region = document.querySelector("dialog[open] [data-announcer]") ?? document.getElementById("announcer");
  if (region) region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}
