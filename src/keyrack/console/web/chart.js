// Charts of a car ([data-chart="address"] of GET /cars/{carId}/samples): the odometer, and the kilometres between two readings. The arrow
// keys move through the times. The table beside the chart has the same data, and stays without this script.
import uPlot from "./uplot.mjs";
import { announce } from "./announce.js";
import { minuteOf } from "./minutes.js";
import { whenever } from "./arrivals.js";

const LINE = 190, BARS = 120; // heights in px
const WORDS = "12px system-ui, sans-serif"; // uPlot accepts only px

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.place = figure.querySelector("[data-plots]");
    this.note = figure.querySelector("[data-chart-note]");
    this.language = document.documentElement.lang;
    this.plots = [];
    this.load();
    figure.addEventListener("refresh", () => this.load());
    this.place.addEventListener("keydown", (event) => this.key(event));
    this.ended = new AbortController();
    const again = () => this.draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again, this.ended);
    this.observers = [new ResizeObserver(() => this.size()), new MutationObserver(again)];
    this.observers[0].observe(this.place);
    this.observers[1].observe(document.documentElement, { attributeFilter: ["data-theme"] });
    document.addEventListener("htmx:after:swap", () => figure.isConnected || this.end(), this.ended);
  }

  /** Another chart has replaced it. */
  end() {
    this.ended.abort();
    this.observers.forEach((observer) => observer.disconnect());
    this.plots.forEach((plot) => plot.destroy());
    this.plots = [];
  }

  async load() {
    try {
      const headers = { Accept: "application/json", "Customer-ID": document.body.dataset.customer };
      const answer = await fetch(this.figure.dataset.chart, { headers });
      if (!answer.ok) throw new Error(answer.status);
      this.take((await answer.json()).series.odometer);
      this.draw();
    } catch {
      if (!this.plots.length) this.note.textContent = this.figure.dataset.failed;
    }
  }

  /** Times in seconds, the odometer, and the distance since the time before; null without a reading. */
  take(told) {
    const { begins, ends, hours } = this.figure.dataset;
    const known = new Map(told.map((bucket) => [Date.parse(bucket.utcDateTime), bucket]));
    this.data = [[], [], []];
    let last = told[0]?.min ?? null;
    for (let time = Date.parse(begins); time < Date.parse(ends); time += hours * 3_600_000) {
      const bucket = known.get(time);
      this.data[0].push(time / 1000);
      this.data[1].push(bucket?.last ?? null);
      this.data[2].push(bucket ? Math.max(bucket.last - last, 0) : null);
      last = bucket?.last ?? last;
    }
  }

  draw() {
    if (!this.data || !this.figure.isConnected) return;
    const at = this.plots[0]?.cursor.idx;
    this.place.replaceChildren();
    this.plots.forEach((plot) => plot.destroy());
    const [times, odometer, driven] = this.data;
    const colour = colours(this.figure);
    const line = { label: this.figure.dataset.odometer, stroke: colour.line, width: 2, spanGaps: true, points: { show: false } };
    const bars = { label: this.figure.dataset.driven, fill: colour.line, stroke: colour.line, width: 0, paths: uPlot.paths.bars({ size: [0.7, 40], align: 1 }), points: { show: false } };
    this.plots = [
      new uPlot(this.options(line, LINE, colour), [times, odometer], this.below(line.label)),
      new uPlot(this.options(bars, BARS, colour, { range: (_, __, most) => [0, Math.max(most, 1)] }), [times, driven], this.below(bars.label)),
    ];
    // A plot has no scales before it is ready
    if (at != null) this.plots[1].hooks.ready = [() => this.show(at)];
  }

  /** The place of a plot, below its name. */
  below(name) {
    const title = document.createElement("p");
    title.textContent = name;
    this.place.append(title);
    return this.place;
  }

  options(series, height, colour, scale = {}) {
    const axis = { stroke: colour.words, font: WORDS, grid: { stroke: colour.grid, width: 1 }, ticks: { show: false } };
    const number = new Intl.NumberFormat(this.language);
    const { begins, ends } = this.figure.dataset;
    return {
      width: this.place.clientWidth,
      height,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), this.figure.dataset.zone),
      legend: { show: false },
      cursor: { sync: { key: "car" }, drag: { setScale: false }, points: { fill: colour.line, stroke: colour.ground, size: 9 }, y: false },
      scales: { x: { range: [Date.parse(begins) / 1000, Date.parse(ends) / 1000] }, y: scale },
      axes: [
        { ...axis, values: (_, times) => times.map((time) => this.mark(time)) },
        { ...axis, size: 64, values: (_, values) => values.map((value) => number.format(value)) },
      ],
      series: [{}, series],
      hooks: { setCursor: [(plot) => this.told(plot.cursor.idx)] },
    };
  }

  /** The label of a time: the hour, or the day at its beginning. */
  mark(time) {
    const zone = this.figure.dataset.zone;
    const hour = new Date(time * 1000).toLocaleTimeString(this.language, { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return hour === "00:00" ? new Date(time * 1000).toLocaleDateString(this.language, { timeZone: zone, day: "numeric", month: "short" }) : hour;
  }

  words(at) {
    const number = new Intl.NumberFormat(this.language, { maximumFractionDigits: 1 });
    const [times, odometer, driven] = this.data;
    if (at == null || odometer[at] == null) return "";
    const time = minuteOf(times[at] * 1000, this.figure.dataset.zone);
    const said = { time, odometer: number.format(odometer[at]), driven: number.format(driven[at]) };
    return this.figure.dataset.told.replace(/\{(\w+)\}/g, (_, name) => said[name]);
  }

  told(at) {
    this.note.textContent = this.words(at);
  }

  show(at) {
    const [plot] = this.plots;
    plot.setCursor({ left: plot.valToPos(this.data[0][at], "x"), top: plot.over.clientHeight / 2 });
  }

  key(event) {
    const [times, odometer] = this.data ?? [[]];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const there = event.key === "Home" ? 0 : event.key === "End" ? times.length - 1 : null;
    if (!this.plots.length || (!step && there === null)) return;
    event.preventDefault();
    let at = there ?? (this.plots[0].cursor.idx ?? (step > 0 ? -1 : times.length)) + step;
    const onward = step ?? (there === 0 ? 1 : -1);
    while (at >= 0 && at < times.length && odometer[at] === null) at += onward;
    if (at < 0 || at >= times.length) return;
    this.show(at);
    announce(this.words(at));
  }

  size() {
    const width = this.place.clientWidth;
    if (width) this.plots.forEach((plot) => plot.width !== width && plot.setSize({ width, height: plot.height }));
  }
}

/** The colours of the current theme, from car.css. */
function colours(figure) {
  const probe = figure.appendChild(document.createElement("i"));
  const found = {};
  for (const name of ["line", "words", "grid", "ground"]) {
    probe.style.color = `var(--chart-${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

whenever("[data-chart]", (figure) => new Chart(figure));
