// Values over time. uPlot draws; the legend is ours, so that it reads like the rest of the page.

import { h, setText } from "./dom.js";
import { KINDS, clock, day } from "./format.js";

const HEIGHT = 190;
const SAMPLE_LIMIT = 20_000; // of a page that stays open for days; one that is loaded again gets all, the older ones as means
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]; // between times on the axis
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power); // round numbers of bytes

// The samples of this page: the server sends what is new. A null value is a gap.
export class Samples {
  constructor() { this.clear(); }

  clear() {
    this.times = [];
    this.values = {};
  }

  take(result) {
    if (result.reset) this.clear();
    const before = this.times.length;
    this.times.push(...result.times);
    for (const [name, values] of Object.entries(result.values)) {
      (this.values[name] ??= new Array(before).fill(null)).push(...values);
    }
    if (this.times.length > SAMPLE_LIMIT) this.forget(SAMPLE_LIMIT / 2);
  }

  forget(count) {
    for (const column of [this.times, ...Object.values(this.values)]) column.splice(0, count);
  }

  // [times, values...] of the last seconds; Infinity: all.
  last(names, seconds) {
    const end = this.times.at(-1) ?? 0;
    const start = this.times.findIndex((time) => time >= end - seconds);
    return [this.times.slice(start), ...names.map((name) => (this.values[name] ?? []).slice(start))];
  }
}

export class Chart {
  // series: [{name, label, colour}]; colours may name a variable of the style sheet
  constructor({ title, kind, series, height = HEIGHT }) {
    Object.assign(this, { title, kind, series, height });
    this.values = series.map(() => h("b"));
    const legend = series.map((each, index) =>
      h("span", {}, h("span", { class: "swatch", style: { background: each.colour } }), `${each.label} `, this.values[index]));
    this.holder = h("div", { class: "chart", role: "img", "aria-label": title, style: { minHeight: `${height}px` } });
    this.nothing = h("div", { class: "nothing" }, "No values yet");
    this.holder.append(this.nothing);
    this.element = h("section", { class: "card" }, h("header", { class: "titled" }, h("h2", {}, title), h("div", { class: "legend" }, legend)), this.holder);
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(this.holder);
  }

  // latest: by name, the values of the last snapshot, which the legend shows; samples come a second later.
  draw(data, latest) {
    this.data = data;
    this.latest = latest;
    const empty = data[0].length < 2;
    this.nothing.hidden = !empty;
    if (empty) return;
    if (this.plot) this.plot.setData(data);
    else this.make();
    if (this.plot.cursor.idx === null || this.plot.cursor.idx === undefined) this.showValues(data[0].length - 1);
  }

  make() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const [axis] = KINDS[this.kind];
    const font = "11px Inter, system-ui, sans-serif";
    const common = { stroke: colour("faint"), font, grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    this.plot = new uPlot({
      width: this.width, height: this.height,
      cursor: { sync: { key: "charts" }, points: { size: 6 }, drag: { x: false, y: false }, y: false },
      legend: { show: false },
      padding: [10, 24, 0, 0], // half of a time on the right
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...common, size: 28, space: 90, incrs: SECONDS, values: (_, splits) => splits.map((time, index) => axisTime(time, splits[1] - splits[0])) },
        { ...common, size: 58, space: 38, ...(this.kind.startsWith("byte") && { incrs: BINARY }), values: (_, splits) => splits.map((value) => axis(value)) },
      ],
      series: [{}, ...this.series.map((each, index) => ({
        stroke: resolved(each.colour, style), width: 1.75, points: { show: false }, spanGaps: false,
        fill: index === 0 || this.series.length === 1 ? `${resolved(each.colour, style)}22` : undefined,
      }))],
      hooks: { setCursor: [(plot) => this.showValues(plot.cursor.idx ?? this.data[0].length - 1)] },
    }, this.data, this.holder);
  }

  showValues(index) {
    const isLast = index === (this.data?.[0].length ?? 0) - 1;
    this.values.forEach((element, position) => {
      const value = (isLast ? this.latest?.[this.series[position].name] : undefined) ?? this.data?.[position + 1]?.[index];
      setText(element, value === null || value === undefined ? "–" : KINDS[this.kind][1](value));
    });
    this.holder.setAttribute("aria-label", `${this.title}: ${this.series.map((each, position) => `${each.label} ${this.values[position].textContent}`).join(", ")}`);
  }

  get width() { return Math.max(120, this.holder.clientWidth - 16); }

  resize() {
    if (this.plot && this.plot.width !== this.width) this.plot.setSize({ width: this.width, height: this.height });
  }

  // After the colours of the page have changed.
  recolour() {
    if (!this.plot) return;
    this.plot.destroy();
    this.plot = null;
    this.draw(this.data, this.latest);
  }

  close() {
    this.resizing.disconnect();
    this.plot?.destroy();
  }
}

function resolved(colour, style) {
  return colour.startsWith("var(") ? style.getPropertyValue(colour.slice(4, -1)).trim() : colour;
}

function axisTime(time, step) {
  const text = clock(time);
  if (step >= 43200) return day(time);
  return step >= 60 ? text.slice(0, 5) : text;
}
