// The style of streets: layers over tiles of OpenMapTiles and of Protomaps, which have different names. A layer without a match draws
// nothing, so no setting is needed. The browser's fonts draw the names.

/** Zoom from which on the names of places are those of the tiles. */
export const NAMED = 8;

// A layer of a vector tile (Mapbox Vector Tile 2.1, section 4): "keyrack", one square as large as the tile
export const GROUND = new Uint8Array([
  0x1a, 0x22, 0x0a, 0x07, ...new TextEncoder().encode("keyrack"),
  0x12, 0x12, 0x18, 3, 0x22, 14, 9, 0, 0, 26, 0x80, 0x40, 0, 0, 0x80, 0x40, 0xff, 0x3f, 0, 15,
  0x28, 0x80, 0x20, 0x78, 2,
]);

const KIND = ["coalesce", ["get", "kind"], ["get", "class"]]; // Protomaps, OpenMapTiles
const GREEN = [
  "park", "national_park", "nature_reserve", "protected_area", "forest", "wood", "grass", "grassland", "meadow", "scrub", "cemetery",
  "golf_course", "garden", "village_green", "recreation_ground", "allotments",
];
const WATERS = ["river", "canal", "stream", "ditch", "drain"];
const RAILS = ["rail", "transit"];
// From the smallest on: kinds, zoom from which on they are drawn, widths at zooms 8, 12, 14 and 18
const ROADS = [
  { name: "path", kinds: ["path", "pedestrian"], from: 14, widths: [0.2, 0.4, 0.8, 4] },
  { name: "lane", kinds: ["service", "track", "other"], from: 13, widths: [0.2, 0.5, 1.2, 9] },
  { name: "side", kinds: ["tertiary", "minor", "minor_road", "busway", "raceway"], from: 10, widths: [0.3, 1, 3.2, 18] },
  { name: "main", kinds: ["trunk", "primary", "secondary", "major_road"], from: 7, widths: [0.8, 2, 5, 24] },
  { name: "motorway", kinds: ["motorway", "highway"], from: 6, widths: [1.2, 3, 6.5, 28] },
];
const BRIGHT = ["main", "motorway"];
// What a place is, zoom from which on it has its name, size of the writing
const PLACES = [
  { name: "quarter", kinds: ["hamlet", "isolated_dwelling", "neighbourhood", "quarter"], from: 13, size: 11 },
  { name: "village", kinds: ["village", "suburb", "macrohood"], from: 10.5, size: 12 },
  { name: "town", kinds: ["town"], from: NAMED, size: 13 },
  { name: "city", kinds: ["city"], from: NAMED, size: 15 },
];
const font = ["sans-serif"];

/** The layers of the streets, "vector" or "raster", from a zoom on, in the colours of the theme. */
export function layersOf(type, colour, from) {
  const layers = type === "raster" ? pictures(colour) : [...ground(colour), ...roads(colour), ...borders(colour), ...names(colour)];
  return layers.map((layer) => ({ ...layer, source: "streets", minzoom: Math.max(from, layer.minzoom ?? 0) }));
}

function is(kinds) {
  return ["in", KIND, ["literal", kinds]];
}

function ground(colour) {
  const green = { "fill-color": colour.green, "fill-antialias": false };
  const water = { "line-color": colour.sea, "line-width": ["interpolate", ["linear"], ["zoom"], 8, 0.5, 14, 1.6, 18, 6] };
  const built = { "fill-color": colour.built, "fill-opacity": ["interpolate", ["linear"], ["zoom"], 13.5, 0, 14.5, 1] };
  return [
    { id: "street-ground", type: "fill", "source-layer": "keyrack", paint: { "fill-color": colour.land, "fill-antialias": false } },
    ...["landcover", "landuse", "park"].map((layer) => (
      { id: `street-${layer}`, type: "fill", "source-layer": layer, filter: layer === "park" ? surface() : ["all", surface(), is(GREEN)], paint: green }
    )),
    { id: "street-water", type: "fill", "source-layer": "water", filter: surface(), paint: { "fill-color": colour.sea } },
    ...["water", "waterway"].map((layer) => (
      { id: `street-${layer}-line`, type: "line", "source-layer": layer, filter: ["all", ["==", ["geometry-type"], "LineString"], is(WATERS)], paint: water }
    )),
    ...["building", "buildings"].map((layer) => (
      { id: `street-${layer}`, type: "fill", "source-layer": layer, minzoom: 13.5, filter: surface(), paint: built }
    )),
  ];
}

function surface() {
  return ["==", ["geometry-type"], "Polygon"];
}

function roads(colour) {
  return ["transportation", "roads"].flatMap((layer) => [
    { id: `street-${layer}-rail`, type: "line", "source-layer": layer, minzoom: 11, filter: is(RAILS), paint: { "line-color": colour.rail, "line-width": 1 } },
    ...ROADS.map((road) => roadLayer(layer, road, "edge", { "line-color": colour["road-edge"], "line-width": widths(road.widths, 1.6) })),
    ...ROADS.map((road) => roadLayer(layer, road, "road", {
      "line-color": BRIGHT.includes(road.name) ? colour["road-main"] : colour.road,
      "line-width": widths(road.widths, 0),
    })),
  ]);
}

function roadLayer(layer, { name, kinds, from }, part, paint) {
  const layout = { "line-cap": "round", "line-join": "round" };
  return { id: `street-${layer}-${name}-${part}`, type: "line", "source-layer": layer, minzoom: from, filter: is(kinds), layout, paint };
}

function widths([far, middle, near, close], more) {
  return ["interpolate", ["exponential", 1.4], ["zoom"], 8, far + more / 2, 12, middle + more, 14, near + more, 18, close + more];
}

function borders(colour) {
  const paint = { "line-color": colour.border, "line-width": ["interpolate", ["linear"], ["zoom"], 6, 1.2, 14, 2.4] };
  const ofOpenMapTiles = ["all", ["<=", ["get", "admin_level"], 2], ["!=", ["get", "maritime"], 1]];
  return [
    { id: "street-boundary", type: "line", "source-layer": "boundary", filter: ofOpenMapTiles, paint },
    { id: "street-boundaries", type: "line", "source-layer": "boundaries", filter: is(["country"]), paint },
  ];
}

function names(colour) {
  const name = ["coalesce", ["get", `name:${document.documentElement.lang.slice(0, 2)}`], ["get", "name"]];
  const paint = { "text-color": colour.place, "text-halo-color": colour.halo, "text-halo-width": 1.4 };
  const along = { "symbol-placement": "line", "text-field": ["get", "name"], "text-font": font, "text-size": 11, "text-padding": 8 };
  const what = ["coalesce", ["get", "kind_detail"], ["get", "class"], ["get", "kind"]];
  const rank = ["coalesce", ["get", "rank"], ["-", ["to-number", ["get", "population_rank"], 0]]];
  return [
    ...["transportation_name", "roads"].map((layer) => (
      { id: `street-${layer}-names`, type: "symbol", "source-layer": layer, minzoom: 13, layout: along, paint }
    )),
    ...["place", "places"].flatMap((layer) => PLACES.map(({ name: size, kinds, from, size: text }) => ({
      id: `street-${layer}-${size}`,
      type: "symbol",
      "source-layer": layer,
      minzoom: from,
      filter: ["all", ["==", ["geometry-type"], "Point"], ["in", what, ["literal", kinds]]],
      layout: { "text-field": name, "text-font": font, "text-size": text, "text-max-width": 8, "text-padding": 6, "symbol-sort-key": rank },
      paint,
    }))),
  ];
}

/** Pictures come in colours of their own: paler by day, turned round by night. */
function pictures({ land }) {
  const [red, green, blue] = land.match(/[\d.]+/g).map(Number);
  const dark = red + green + blue < 384;
  const paint = { "raster-saturation": -0.5, "raster-brightness-min": dark ? 0.9 : 0.1, "raster-brightness-max": dark ? 0.08 : 1, "raster-hue-rotate": dark ? 180 : 0 };
  return [{ id: "street-pictures", type: "raster", paint }];
}
