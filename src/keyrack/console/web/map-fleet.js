// The map of all cars ([data-fleet]), the card of the chosen car, and the table "Cars in view".
import { announce } from "./announce.js";
import { FleetCard } from "./fleet-card.js";
import { FleetTable } from "./fleet-table.js";
import { around, close, drawMap, room } from "./map-canvas.js";
import { placesOf } from "./map-places.js";
import { SIZE, addSigns } from "./map-signs.js";
import { writing } from "./map-style.js";
import { Positions, stateOf } from "./positions.js";

const MANY = 200; // number of cars from which on near ones are drawn as one
const APART = 14; // zoom from which on each car is drawn on its own
const AGEING = 30_000; // ms between two checks for stale states
const SETTLED = 150; // ms after which the map has stopped

class FleetMap {
  constructor(frame) {
    this.frame = frame;
    this.limits = { stale: Number(frame.dataset.staleMinutes) / 1440, silent: Number(frame.dataset.silentDays) };
    this.states = new Map(); // of each car, as the map shows it
    this.positions = new Positions(frame);
    this.card = new FleetCard(frame, this);
    this.table = new FleetTable(document.getElementById(frame.dataset.table), this);
    this.chosen = null;
  }

  async begin() {
    const [loaded] = await Promise.allSettled([this.positions.start(), placesOf("cities")]);
    if (loaded.status === "rejected") {
      this.frame.querySelector("[data-map-note]").textContent = this.frame.dataset.unreachable;
      return;
    }
    this.positions.addEventListener("loaded", () => this.load());
    this.positions.addEventListener("moved", ({ detail }) => this.move(detail));
    setInterval(() => this.age(), AGEING);
    this.show();
    const bounds = () => around([...this.positions.cars.values()]);
    this.drawing = drawMap(this.frame, bounds, (map, colours) => this.paint(map, colours));
    this.search();
    const drawn = await this.drawing;
    if (drawn) this.draw(drawn);
    this.show();
  }

  draw({ map, gl }) {
    this.map = map;
    this.gl = gl;
    map.on("moveend", (event) => this.settle(event.originalEvent !== undefined || this.asked));
    map.on("resize", () => this.settle(false));
    this.frame.addEventListener("places", () => this.show());
    map.on("click", "cars", ({ features }) => this.choose(features[0].id));
    map.on("click", "clusters", ({ features }) => this.part(features[0]));
    for (const layer of ["cars", "clusters"]) {
      map.on("mouseenter", layer, () => { map.getCanvas().style.cursor = "pointer"; });
      map.on("mouseleave", layer, () => { map.getCanvas().style.cursor = ""; });
    }
    this.frame.addEventListener("showall", () => this.all());
  }

  /** The layers of the cars, in the colours of the theme. */
  paint(map, colour) {
    addSigns(map, colour);
    if (!map.getSource("cars")) {
      map.addSource("cars", this.source());
      map.addSource("chosen", { type: "geojson", data: { type: "FeatureCollection", features: [] } });
      layers().forEach((layer) => map.addLayer(layer));
    }
    const set = (layer, values) => Object.entries(values).forEach(([name, value]) => map.setPaintProperty(layer, name, value));
    set("ring", { "circle-stroke-color": colour.chosen });
    set("clusters", { "circle-color": colour.cluster, "circle-stroke-color": colour["car-rim"] });
    set("counts", { "text-color": colour["cluster-word"] });
    set("names", { "text-color": colour.name, "text-halo-color": colour.halo });
  }

  source() {
    const many = this.positions.cars.size > MANY;
    this.clustered = many;
    return { type: "geojson", data: this.features(), cluster: many, clusterRadius: 44, clusterMaxZoom: APART - 1, buffer: 0, maxzoom: 15 };
  }

  features() {
    return { type: "FeatureCollection", features: [...this.positions.cars.values()].map((car) => this.feature(car)) };
  }

  feature(car) {
    const geometry = { type: "Point", coordinates: [car.longitude, car.latitude] };
    const state = stateOf(car, this.limits);
    this.states.set(car.carId, state);
    return { type: "Feature", id: car.carId, properties: { name: car.name, state }, geometry };
  }

  /** States become stale without an update. */
  age() {
    const other = [...this.positions.cars.values()].filter((car) => stateOf(car, this.limits) !== this.states.get(car.carId));
    if (other.length) this.move(other);
  }

  /** All cars were read again. */
  load() {
    const source = this.map?.getSource("cars");
    if (source && this.clustered !== this.positions.cars.size > MANY) {
      this.clustered = !this.clustered;
      source.setClusterOptions({ cluster: this.clustered, clusterRadius: 44, clusterMaxZoom: APART - 1 });
    }
    source?.setData(this.features());
    this.show();
  }

  /** These cars have moved, or have another state. */
  move(cars) {
    const update = cars.map((car) => {
      const { geometry, properties } = this.feature(car);
      const told = Object.entries(properties).map(([key, value]) => ({ key, value }));
      return { id: car.carId, newGeometry: geometry, addOrUpdateProperties: told };
    });
    this.map?.getSource("cars")?.updateData({ update });
    this.show();
  }

  /** Updates the parts beside the map after a move. */
  show() {
    const cars = [...this.positions.cars.values()];
    const inView = this.map ? cars.filter(within(this.map.getBounds())) : cars;
    this.table.show(inView, this.chosen);
    const car = this.positions.cars.get(this.chosen);
    if (this.chosen !== null && !car) return this.choose(null);
    if (car) this.card.car(car);
    this.ring(car);
  }

  ring(car) {
    this.map?.getSource("chosen")?.setData({ type: "FeatureCollection", features: car ? [this.feature(car)] : [] });
  }

  settle(asked) {
    this.asked = false;
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.show();
      if (asked) announce(this.table.said());
    }, SETTLED);
  }

  all() {
    const bounds = around([...this.positions.cars.values()]);
    this.asked = true;
    if (bounds) this.map.fitBounds(bounds, room(this.frame));
  }

  /** Chooses a car by its id, or none with null; `fly`: the map moves there. */
  choose(id, fly = false) {
    const car = this.positions.cars.get(id);
    this.chosen = car ? id : null;
    if (!car) this.card.close();
    else if (fly && this.map) this.fly(car);
    this.show();
    if (car) this.table.reveal(id);
  }

  fly({ longitude, latitude }) {
    const low = this.frame.clientWidth < 480 ? 100 : 0; // px by which the car stands lower: there the card is above it
    this.map.flyTo({ center: [longitude, latitude], zoom: Math.max(close(this.frame), this.map.getZoom()), speed: 2.4, offset: [0, low] });
    this.frame.scrollIntoView({ block: "nearest" });
  }

  /** Zooms into cars that are drawn as one, until they separate; the others are listed. */
  async part(cluster) {
    const source = this.map.getSource("cars");
    const id = cluster.properties.cluster_id;
    const zoom = await source.getClusterExpansionZoom(id);
    const leaves = await source.getClusterLeaves(id, cluster.properties.point_count, 0);
    const cars = leaves.map((leaf) => this.positions.cars.get(leaf.id)).filter(Boolean);
    const [west, south, east, north] = around(cars);
    if (zoom >= APART && Math.max(east - west, north - south) < 0.002) {
      this.chosen = null;
      this.card.list(cars);
      this.show();
    } else this.map.easeTo({ center: cluster.geometry.coordinates, zoom: zoom + 0.2 });
  }

  /** The search beside the map: leads to the car on the map, or to its page without a map. */
  search() {
    const form = document.getElementById(this.frame.dataset.search);
    const select = form?.querySelector("select");
    select?.addEventListener("change", async () => {
      const id = Number(select.value);
      if (!id) return;
      this.frame.scrollIntoView({ block: "nearest" }); // it is drawn once it is in view
      if (!(await this.drawing) || !this.positions.cars.has(id)) return location.assign(`${this.frame.dataset.cars}/${id}`);
      this.choose(id, true);
      announce(this.card.said());
    });
    form?.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = form.querySelector("input")?.value ?? "";
      location.assign(`${form.action}?${new URLSearchParams({ q: text })}`);
    });
  }
}

/** Whether a car is within bounds; these go on beyond 180 degrees where the map is moved across them. */
function within(bounds) {
  const [west, east, south, north] = [bounds.getWest(), bounds.getEast(), bounds.getSouth(), bounds.getNorth()];
  const turn = (longitude) => longitude + 360 * Math.ceil((west - longitude) / 360);
  return ({ longitude, latitude }) => latitude >= south && latitude <= north && turn(longitude) <= east;
}

/** From the lowest on. What is higher finds its place first, so names of cars give way to all signs, and those of places to both. */
function layers() {
  const alone = ["!", ["has", "point_count"]];
  const count = ["get", "point_count"];
  return [
    { id: "ring", type: "circle", source: "chosen", paint: { "circle-radius": SIZE / 2 + 5, "circle-color": "transparent", "circle-stroke-width": 3 } },
    {
      id: "names",
      type: "symbol",
      source: "cars",
      filter: alone,
      layout: {
        ...writing,
        "text-field": ["get", "name"],
        "text-size": 12,
        "text-variable-anchor": ["left", "right", "top", "bottom"],
        "text-radial-offset": 1.5,
        "text-justify": "auto",
      },
      paint: { "text-halo-width": 1.6 },
    },
    {
      id: "cars",
      type: "symbol",
      source: "cars",
      filter: alone,
      layout: {
        "icon-image": ["get", "state"],
        "icon-allow-overlap": true,
        "symbol-sort-key": ["match", ["get", "state"], "driving", 3, "ready", 2, "silent", 1, 0],
      },
    },
    {
      id: "clusters",
      type: "circle",
      source: "cars",
      filter: ["has", "point_count"],
      paint: { "circle-radius": ["interpolate", ["linear"], count, 2, 14, 50, 18, 500, 25, 5000, 34], "circle-stroke-width": 2 },
    },
    {
      id: "counts",
      type: "symbol",
      source: "cars",
      filter: ["has", "point_count"],
      layout: { ...writing, "text-field": ["number-format", count, { locale: document.documentElement.lang }], "text-size": 12, "text-allow-overlap": true, "text-padding": 12 },
    },
    { id: "chosen", type: "symbol", source: "chosen", layout: { "icon-image": ["get", "state"], "icon-allow-overlap": true } },
  ];
}

const frame = document.querySelector("[data-fleet]");
if (frame) new FleetMap(frame).begin();
