// The position of a car ([data-place] with data-latitude and data-longitude): shows the nearest place instead of the coordinates of the
// server.
import { inWords, placesOf } from "./map-places.js";

function tell() {
  for (const place of document.querySelectorAll("#where [data-place]")) {
    place.textContent = inWords(Number(place.dataset.latitude), Number(place.dataset.longitude), place.dataset);
  }
}

await Promise.allSettled([placesOf("cities"), placesOf("towns")]);
tell();
// A reloaded element has the server's text again
document.addEventListener("htmx:after:swap", tell);
