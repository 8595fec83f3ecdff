// The day of a car ([data-track]): its track on a map, and a time slider that shows the position. The positions come from the rows of the
// table, which has the same data for readers without the map.
import { around, drawMap, room } from "./map-canvas.js";
import { inWords, placesOf } from "./map-places.js";
import { SIZE, addSigns } from "./map-signs.js";
import { whenever } from "./arrivals.js";

const STAY = 120_000; // ms after which a car counts as parked at a place

class TrackMap {
  constructor(frame) {
    this.frame = frame;
    this.rows = [...document.getElementById(frame.dataset.table).tBodies[0].rows];
    this.places = this.rows.map((row) => ({
      row,
      at: Date.parse(row.dataset.at),
      until: Date.parse(row.dataset.until),
      latitude: Number(row.dataset.latitude),
      longitude: Number(row.dataset.longitude),
    }));
    const form = { timeStyle: "short", timeZone: frame.dataset.zone };
    this.clock = new Intl.DateTimeFormat(document.documentElement.lang, form);
    this.slider = document.querySelector("[data-track-slider]");
    this.said = document.querySelector("[data-track-said]");
  }

  async begin() {
    this.slide();
    await Promise.allSettled([placesOf("cities"), placesOf("towns")]);
    for (const place of this.places) place.row.querySelector("[data-place]").textContent = inWords(place.latitude, place.longitude, this.frame.dataset);
    this.show();
    const drawn = await drawMap(this.frame, () => around(this.places), (map, colours) => this.paint(map, colours));
    if (!drawn) return;
    this.map = drawn.map;
    this.frame.addEventListener("showall", () => this.map.fitBounds(around(this.places), room(this.frame)));
    this.map.on("click", "stops", ({ features }) => this.go(this.places[features[0].id].at));
    this.show();
  }

  slide() {
    const { slider } = this;
    // In seconds, whole minutes: from the first place told to the last one
    slider.min = Math.floor(this.places[0].at / 60_000) * 60;
    slider.max = Math.ceil(this.places.at(-1).until / 60_000) * 60;
    slider.value = slider.max;
    slider.addEventListener("input", () => this.show());
    document.querySelector("[data-track-time]").hidden = false;
    this.show();
  }

  go(time) {
    this.slider.value = Math.ceil(time / 60_000) * 60;
    this.show();
  }

  /** The last known position at a time. */
  at(time) {
    const later = this.places.findIndex((place) => place.at > time);
    return this.places[later < 0 ? this.places.length - 1 : Math.max(0, later - 1)];
  }

  show() {
    const time = Number(this.slider.value) * 1000;
    const place = this.at(time);
    const text = `${this.clock.format(time)}, ${inWords(place.latitude, place.longitude, this.frame.dataset)}`;
    this.slider.setAttribute("aria-valuetext", text);
    this.said.textContent = text;
    for (const { row } of this.places) row.toggleAttribute("aria-current", row === place.row);
    this.map?.getSource("now")?.setData(point(place, 0));
  }

  /** The stops of the car, and the first and last position of the day. */
  stays() {
    const last = this.places.length - 1;
    const features = this.places.map(point);
    return features.filter((_, number) => number === 0 || number === last || this.places[number].until - this.places[number].at >= STAY);
  }

  paint(map, colour) {
    addSigns(map, colour);
    if (!map.getSource("track")) {
      const line = { type: "Feature", properties: {}, geometry: { type: "LineString", coordinates: this.places.map(({ longitude, latitude }) => [longitude, latitude]) } };
      map.addSource("track", { type: "geojson", data: line });
      map.addSource("stops", { type: "geojson", data: { type: "FeatureCollection", features: this.stays() } });
      map.addSource("now", { type: "geojson", data: point(this.places.at(-1), 0) });
      map.addLayer({ id: "track", type: "line", source: "track", layout: { "line-join": "round", "line-cap": "round" }, paint: { "line-width": 3.5 } });
      map.addLayer({ id: "stops", type: "circle", source: "stops", paint: { "circle-radius": 4, "circle-stroke-width": 1.5 } });
      map.addLayer({ id: "ring", type: "circle", source: "now", paint: { "circle-radius": SIZE / 2 + 5, "circle-color": "transparent", "circle-stroke-width": 3 } });
      map.addLayer({ id: "now", type: "symbol", source: "now", layout: { "icon-image": "driving", "icon-allow-overlap": true } });
    }
    map.setPaintProperty("track", "line-color", colour.track);
    map.setPaintProperty("stops", "circle-color", colour.track);
    map.setPaintProperty("stops", "circle-stroke-color", colour["car-rim"]);
    map.setPaintProperty("ring", "circle-stroke-color", colour.chosen);
  }
}

function point({ longitude, latitude }, number) {
  return { type: "Feature", id: number, properties: {}, geometry: { type: "Point", coordinates: [longitude, latitude] } };
}

whenever("[data-track]", (frame) => new TrackMap(frame).begin());
