// Where the car is ([data-place] with data-latitude and data-longitude): the nearest place instead of the coordinates, which are all that
// the server says.
import { inWords, placesOf } from "./map-places.js";

function tell() {
  for (const place of document.querySelectorAll("#where [data-place]")) {
    place.textContent = inWords(Number(place.dataset.latitude), Number(place.dataset.longitude), place.dataset);
  }
}

await Promise.allSettled([placesOf("cities"), placesOf("towns")]);
tell();
// What was loaded again in its place says it as the server wrote it
document.addEventListener("htmx:after:swap", tell);
