// Positions in words: the nearest named place and its distance, for readers without the map.

const CELL = 0.5; // degrees of latitude and longitude
const HERE = 4; // km within which a position is at a place, not near it
const AS_FAR = 60; // km beyond which a place is not named
const AROUND = 25; // km within which a larger place explains a small one
const loading = new Map();
const cells = new Map(); // "latitude longitude" -> places

/** The rows [name, longitude, latitude, class] of cities.json, towns.json or villages.json. */
export function placesOf(name) {
  if (!loading.has(name)) loading.set(name, load(name));
  return loading.get(name);
}

async function load(name) {
  const answer = await fetch(new URL(`./${name}.json`, import.meta.url));
  const { places } = await answer.json();
  for (const place of places) {
    const key = cell(place[2], place[1]);
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(place);
  }
  return places;
}

function cell(latitude, longitude) {
  return `${Math.floor(latitude / CELL)} ${Math.floor(longitude / CELL)}`;
}

/** The nearest loaded place, and the largest around it, each {name, km, size} or null. */
function known(latitude, longitude) {
  const wide = Math.cos((latitude * Math.PI) / 180);
  let nearest = null;
  let largest = null;
  for (let north = -1; north <= 1; north++) {
    for (let east = -2; east <= 2; east++) {
      for (const place of cells.get(cell(latitude + north * CELL, longitude + east * CELL)) ?? []) {
        const km = 111.32 * Math.hypot(place[2] - latitude, (place[1] - longitude) * wide);
        const [name, , , size] = place;
        if (km < (nearest?.km ?? AS_FAR)) nearest = { name, km, size };
        if (km < AROUND && (!largest || size < largest.size || (size === largest.size && km < largest.km))) largest = { name, km, size };
      }
    }
  }
  return { nearest, largest: largest?.size < nearest?.size ? largest : null };
}

/** Where it is in words, "Altona, 4 km from Hamburg"; `words.near` is "{distance} km from {place}", `words.nowhere` what is said where no place is near. */
export function inWords(latitude, longitude, words) {
  const { nearest, largest } = known(latitude, longitude);
  if (!nearest) return words.nowhere.replace("{latitude}", latitude.toFixed(3)).replace("{longitude}", longitude.toFixed(3));
  const near = ({ name, km }) => words.near.replace("{distance}", Math.max(1, Math.round(km))).replace("{place}", name);
  if (nearest.km >= HERE) return near(largest ?? nearest);
  return largest ? `${nearest.name}, ${near(largest)}` : nearest.name;
}
