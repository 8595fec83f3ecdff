// Streets below the cars: tiles of the operator's file or server ([data-tiles] of the map's frame). The page fetches them instead of
// MapLibre's worker, which has a policy of its own. A failure is reported once, in words; borders and cities stay.
import { onTheme } from "./map-style.js";
import { GROUND, NAMED, layersOf } from "./map-streets-style.js";

const FROM = 6; // zoom from which on streets are fetched: borders are enough before
const TOLD = 10; // zoom from which on missing streets are reported
const TRIES = 3; // consecutive failures after which fetching stops
const PATIENCE = 20_000; // ms for one answer
const DEEPEST = { vector: 14, raster: 18 }; // highest zoom of a server's tiles, which its address does not contain
const BELOW = "places-6"; // the first layer of names

/** Draws streets into the map of the frame, or continues without them. */
export async function addStreets(frame, map, gl) {
  const streets = new Streets(frame, map);
  try {
    const source = await (frame.dataset.tilesKind === "pmtiles" ? archive(frame.dataset.tiles) : server(frame.dataset));
    gl.addProtocol("streets", ({ url }, { signal }) => streets.tile(url, signal));
    streets.draw(source);
  } catch {
    streets.end();
  }
}

class Streets {
  constructor(frame, map) {
    this.frame = frame;
    this.map = map;
    this.failed = 0;
    this.names = new Map(map.getStyle().layers.filter(({ id }) => id.startsWith("places-")).map(({ id, filter }) => [id, filter]));
  }

  draw(source) {
    const { map, names } = this;
    const { type, least, deepest } = source;
    this.source = source;
    map.addSource("streets", { type, tiles: ["streets://{z}/{x}/{y}"], minzoom: least, maxzoom: deepest, tileSize: type === "raster" ? 256 : 512 });
    onTheme((colours) => {
      if (this.ended) return;
      for (const layer of layersOf(type, colours, FROM)) {
        if (!map.getLayer(layer.id)) map.addLayer(layer, BELOW);
        else for (const [name, value] of Object.entries(layer.paint)) map.setPaintProperty(layer.id, name, value);
      }
    });
    // From this zoom on the tiles have names of places; outside the file's region only Keyrack's names are shown
    const from = type === "raster" ? FROM : NAMED;
    for (const [id, filter] of names) map.setFilter(id, ["all", filter, ["any", ["<", ["zoom"], from], outside(source.region)]]);
  }

  /** A tile by its address; an empty one if it does not exist. MapLibre requests it again only after evicting it. */
  async tile(url, signal) {
    if (this.ended) return { data: null };
    const [z, x, y] = url.split("/").slice(-3).map(Number);
    try {
      const data = await this.source.fetch(z, x, y, AbortSignal.any([signal, AbortSignal.timeout(PATIENCE)]));
      this.failed = 0;
      if (!data?.byteLength) return this.without(z);
      return { data: this.source.type === "vector" ? grounded(data) : data };
    } catch (error) {
      if (signal.aborted) throw error; // the map has moved on
      this.failed += 1;
      if (this.failed >= TRIES) this.end();
      return this.without(z);
    }
  }

  without(zoom) {
    if (!this.ended && zoom >= Math.min(TOLD, this.source.deepest)) this.say("streetsPartly");
    return { data: null };
  }

  /** Stops streets until the page is reloaded. */
  end() {
    this.ended = true;
    const { map } = this;
    this.say("streetsGone");
    for (const { id, source } of map.getStyle().layers) if (source === "streets") map.removeLayer(id);
    if (map.getSource("streets")) map.removeSource("streets");
    for (const [id, filter] of this.names) map.setFilter(id, filter);
  }

  say(word) {
    const note = this.frame.querySelector("[data-map-streets]");
    const text = this.frame.dataset[word];
    if (note.textContent !== text) note.textContent = text;
  }
}

/** {type, least, deepest, region, fetch} of a PMTiles file. */
async function archive(address) {
  const { PMTiles } = await import("./pmtiles.mjs");
  const file = new PMTiles(new URL(address, location).href);
  const header = await Promise.race([file.getHeader(), late()]);
  if (header.tileType !== 1) throw new TypeError("no vector tiles");
  const fetch = async (z, x, y, signal) => (await file.getZxy(z, x, y, signal))?.data;
  const region = [header.minLon, header.minLat, header.maxLon, header.maxLat];
  return { type: "vector", least: header.minZoom, deepest: header.maxZoom, region, fetch };
}

function late() {
  return new Promise((_, failed) => { setTimeout(failed, PATIENCE, new DOMException("no answer", "TimeoutError")); });
}

/** The same of a server whose address has places for zoom, column and row. */
function server({ tiles, tilesKind: type }) {
  const load = async (z, x, y, signal) => {
    const address = tiles.replace("{z}", z).replace("{x}", x).replace("{y}", y);
    const answer = await fetch(address, { signal, credentials: "omit" });
    if (answer.status === 204 || answer.status === 404) return null;
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.arrayBuffer();
  };
  return { type, least: 0, deepest: DEEPEST[type], region: null, fetch: load };
}

/** A tile with the ground below it: so there is land where there is a tile, and only there. */
function grounded(tile) {
  const whole = new Uint8Array(tile.byteLength + GROUND.length);
  whole.set(new Uint8Array(tile));
  whole.set(GROUND, tile.byteLength);
  return whole.buffer;
}

function outside(region) {
  if (!region) return false;
  const [west, south, east, north] = region;
  const ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
  return ["!", ["within", { type: "Polygon", coordinates: [ring] }]];
}
