// Says something to who cannot see it: in the polite region of the page, or in that of the dialog that covers the page.

/** @param {string} text what to say; the same text twice is said twice */
export function announce(text) {
  const region = document.querySelector("dialog[open] [data-announcer]") ?? document.getElementById("announcer");
  if (region) region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}
