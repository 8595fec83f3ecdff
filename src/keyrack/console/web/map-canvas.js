// A map of the world without requests to other hosts: borders and places are files of this server, and the browser's fonts draw the labels.
// Each map is in a frame (macros/map.html), which has its texts and buttons.
import { bordersOf } from "./map-borders.js";
import { onTheme, styleOf } from "./map-style.js";
import { placesOf } from "./map-places.js";

const CLOSER = { towns: 7, villages: 10 }; // zoom from which on these are shown too
const CLOSEST = 17;

const nothing = { type: "FeatureCollection", features: [] };

/**
 * Draws the map into its frame as soon as that is in view. bounds() returns [west, south, east, north], or null for the world;
 * theme(map, colours) is called whenever colours are to be set. The frame has the events "showall", and "places" when more places have names. Its attribute
 * data-idle is present while the map does not move and everything requested is drawn. Resolves to the map and MapLibre, or to null
 * where there can be none: the frame says why.
 */
export async function drawMap(frame, bounds, theme) {
  let map, gl, topojson;
  await inView(frame);
  try {
    [gl, topojson] = await Promise.all([import("./maplibre-gl.mjs"), import("./topojson-client.mjs"), styles(frame)]);
  } catch {
    return say(frame, frame.dataset.unreachable);
  }
  try {
    map = new gl.Map(options(frame, bounds()));
  } catch {
    return say(frame, frame.dataset.noGl);
  }
  map.touchZoomRotate.disableRotation();
  map.keyboard.disableRotation();
  map.on("webglcontextlost", () => say(frame, frame.dataset.lost));
  map.on("webglcontextrestored", () => say(frame, ""));
  map.on("movestart", () => frame.removeAttribute("data-idle"));
  map.on("dataloading", () => frame.removeAttribute("data-idle"));
  map.on("idle", () => frame.toggleAttribute("data-idle", true));
  map.addControl(new gl.ScaleControl({ maxWidth: 90 }), "bottom-right");
  await new Promise((done) => map.once("style.load", done));
  onTheme((colours) => {
    for (const { id, paint } of styleOf(colours).layers) for (const name in paint) map.setPaintProperty(id, name, paint[name]);
    theme(map, colours);
  });
  buttons(frame, map);
  say(frame, "");
  world(frame, map, topojson);
  if (frame.dataset.tiles) import("./map-streets.js").then(({ addStreets }) => addStreets(frame, map, gl));
  return { map, gl };
}

/** Resolves once the frame is in view. Drawing keeps a page busy, for seconds without a GPU. */
function inView(frame) {
  return new Promise((seen) => {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      seen();
    });
    observer.observe(frame);
  });
}

function options(frame, bounds) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const words = frame.dataset;
  return {
    container: frame.querySelector("[data-map-canvas]"),
    style: styleOf(),
    ...(bounds ? { bounds, fitBoundsOptions: room(frame) } : { center: [10, 30], zoom: 1 }),
    maxZoom: CLOSEST,
    minZoom: 0.5,
    attributionControl: false,
    dragRotate: false,
    pitchWithRotate: false,
    touchPitch: false,
    fadeDuration: still ? 0 : 150,
    cooperativeGestures: matchMedia("(pointer: coarse)").matches,
    locale: {
      "Map.Title": words.title,
      "ScaleControl.Meters": words.meters,
      "ScaleControl.Kilometers": words.kilometers,
      "CooperativeGesturesHandler.MobileHelpText": words.twoFingers ?? "",
    },
  };
}

/** The zoom for one place: with streets so that they have names, otherwise so that some towns are around it. */
export function close(frame) {
  return frame.dataset.tiles ? 13 : 11;
}

/** The margin around the content, so that nothing is below the buttons. */
export function room(frame) {
  return { padding: frame.clientWidth < 480 ? 40 : 72, maxZoom: close(frame) };
}

/** The smallest bounds around places {longitude, latitude}; null without any. */
export function around(places) {
  if (!places.length) return null;
  const box = [180, 90, -180, -90];
  for (const { longitude, latitude } of places) {
    box[0] = Math.min(box[0], longitude);
    box[1] = Math.min(box[1], latitude);
    box[2] = Math.max(box[2], longitude);
    box[3] = Math.max(box[3], latitude);
  }
  return box;
}

function say(frame, text) {
  const note = frame.querySelector("[data-map-note]");
  note.textContent = text;
  note.hidden = !text;
  frame.toggleAttribute("data-drawn", !text);
  return null;
}

function styles(frame) {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: frame.dataset.styles });
  return new Promise((done, failed) => {
    link.onload = done;
    link.onerror = failed;
    document.head.append(link);
  });
}

function buttons(frame, map) {
  const group = frame.querySelector("[data-map-buttons]");
  group.hidden = false;
  group.addEventListener("click", (event) => {
    const wanted = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (wanted === "in") map.zoomIn();
    if (wanted === "out") map.zoomOut();
    if (wanted === "all") frame.dispatchEvent(new Event("showall"));
  });
}

async function world(frame, map, topojson) {
  const borders = fetch(new URL("./countries-50m.json", import.meta.url))
    .then((answer) => answer.json())
    .then((topology) => {
      for (const [name, shape] of Object.entries(bordersOf(topology, topojson))) map.getSource(name)?.setData(shape);
    });
  const begun = new Set();
  const label = (name) => placesOf(name).then((places) => map.getSource(name)?.setData(points(places)));
  const closer = () => {
    for (const [name, zoom] of Object.entries(CLOSER)) {
      if (map.getZoom() < zoom || begun.has(name)) continue;
      begun.add(name);
      label(name).then(() => frame.dispatchEvent(new Event("places"))).catch(() => {});
    }
  };
  map.on("zoomend", closer);
  // Without them the map is poorer, but not wrong
  await Promise.allSettled([borders, label("cities")]);
  closer();
}

function points(places) {
  if (!places.length) return nothing;
  const features = places.map(([name, longitude, latitude, size]) => ({
    type: "Feature", properties: { name, size }, geometry: { type: "Point", coordinates: [longitude, latitude] },
  }));
  return { type: "FeatureCollection", features };
}
