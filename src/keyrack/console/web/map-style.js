// The style of maps: the layers of the ground, in the colours of the page's theme. The colours are tokens (tokens.css).

// Zoom from which on places of class 0 (the largest), 1, .. have their names
const FROM = [1.5, 3, 4.5, 6, 7, 8.5, 10];
const SIZES = [14, 13, 12, 12, 11, 11, 11];
const FILES = ["cities", "cities", "cities", "cities", "towns", "towns", "villages"]; // in which they are
const TOKENS = {
  sea: "var(--map-sea)",
  land: "var(--map-land)",
  border: "var(--map-border)",
  coast: "var(--map-coast)",
  place: "var(--map-place)",
  name: "var(--map-name)",
  halo: "var(--map-halo)",
  car: "var(--map-car)",
  "car-rim": "var(--map-car-rim)",
  moving: "var(--map-moving)",
  ready: "var(--map-ready)",
  stale: "var(--map-stale)",
  quiet: "var(--map-quiet)",
  cluster: "var(--map-cluster)",
  "cluster-word": "var(--map-cluster-word)",
  chosen: "var(--map-chosen)",
  track: "var(--map-track)",
  green: "var(--map-green)",
  built: "var(--map-built)",
  road: "var(--map-road)",
  "road-main": "var(--map-road-main)",
  "road-edge": "var(--map-road-edge)",
  rail: "var(--map-rail)",
};
// Where the name of a place may stand, in heights of its writing: beside it where cars stand on it
const ASIDE = ["center", [0, 0], "top", [0, 1.2], "bottom", [0, -1.2], "left", [1.4, 0], "right", [-1.4, 0], "top", [0, 2.6], "bottom", [0, -2.6]];
const empty = { type: "geojson", data: { type: "FeatureCollection", features: [] } };

/** The colours of the theme in force, by the names of TOKENS. */
export function colours() {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.forcedColorAdjust = "none"; // a map in the one colour of all writing would show nothing
  const found = {};
  for (const name in TOKENS) {
    probe.style.color = TOKENS[name];
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

/** Calls `act` with the colours now, and whenever the theme changes. */
export function onTheme(act) {
  const again = () => act(colours());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  again();
}

/** The style of a map without anything on it. It names no glyphs: so the fonts of the browser are used, and nobody is asked for them. */
export function styleOf(colour = colours()) {
  const ground = [
    { id: "sea", type: "background", paint: { "background-color": colour.sea } },
    { id: "land", type: "fill", source: "land", paint: { "fill-color": colour.land, "fill-antialias": false } },
    { id: "coast", type: "line", source: "coasts", paint: { "line-color": colour.coast, "line-width": 0.75 } },
    { id: "borders", type: "line", source: "borders", paint: { "line-color": colour.border, "line-width": ["interpolate", ["linear"], ["zoom"], 2, 0.6, 8, 1.6] } },
  ];
  const names = FROM.map((zoom, size) => ({
    id: `places-${size}`,
    type: "symbol",
    source: FILES[size],
    minzoom: zoom,
    filter: ["==", ["get", "size"], size],
    layout: {
      "text-field": ["get", "name"],
      "text-font": ["sans-serif"],
      "text-size": ["interpolate", ["linear"], ["zoom"], zoom, SIZES[size], zoom + 6, SIZES[size] + 4],
      "text-variable-anchor-offset": ASIDE,
      "text-justify": "auto",
      "text-max-width": 8,
      "text-padding": 6,
    },
    paint: { "text-color": colour.place, "text-halo-color": colour.halo, "text-halo-width": 1.4 },
  }));
  const sources = { land: empty, coasts: empty, borders: empty, cities: empty, towns: empty, villages: empty };
  return { version: 8, sources, layers: [...ground, ...names.reverse()] };
}

/** How the names of cars and numbers are written: "Bold" is read as the weight, and no font has this name. */
export const writing = { "text-font": ["Sans Bold"] };
