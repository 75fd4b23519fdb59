// What the charts share: SVG elements, scales, and a chart of values over time. No request may enter here.

import { make, setText } from "./dom.js";
import { count } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 132;
const TOP = 8;
const BOTTOM = 20;
const LEFT = 60;

/** An SVG element. */
export function svg(name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.append(text);
  return element;
}

/** The least 1, 2 or 5 times a power of ten that is not below `value`. */
export function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value);
}

/** A number on an axis. */
export function short(value) {
  return value >= 10_000 ? `${count(value / 1_000)} k` : count(value);
}

/** Periods over time: bars, or a line for each name in `lines`. A click opens the period. */
export class PeriodChart {
  /**
   * `read(period)`: names and values, null where there is none. `lines`: names drawn as lines; without, one bar
   * of `count`. `label(value)`: on the axis; `says(period)`: on pointing at it; `open(start_ms)`, if it opens.
   */
  constructor(box, { read, lines = null, label = short, clock, says, open = null }) {
    Object.assign(this, { box, read, lines, label, clock, says, open, periods: [] });
    this.svg = svg("svg", { role: "img", height: HEIGHT, "aria-label": "Loading…" });
    this.readout = make("p", { className: "readout", ariaHidden: "true" });
    box.append(this.svg, this.readout);
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => setText(this.readout, ""));
    if (open) this.svg.addEventListener("click", (event) => this.periods.length && open(this.#startAt(event)));
    this.svg.classList.toggle("opens", open !== null);
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** Show these periods (`start_ms` and what `read` wants) of `stepMs` from `startMs` to `endMs`. */
  update(periods, startMs, endMs, stepMs, summary) {
    Object.assign(this, { periods, stepMs, first: Math.floor(startMs / stepMs) });
    this.slots = Math.max(1, Math.ceil(endMs / stepMs) - this.first);
    this.svg.setAttribute("aria-label", summary);
    this.#draw();
  }

  #draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || !this.stepMs) return;
    const step = (width - LEFT) / this.slots;
    const values = this.periods.map(this.read);
    const top = niceCeiling(Math.max(1, ...values.flatMap(Object.values).filter((value) => value !== null)));
    const x = (period) => LEFT + (period.start_ms / this.stepMs - this.first) * step;
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    Object.assign(this, { step });
    const marks = this.lines ? this.lines.map((name) => this.#line(name, values, x, y)) : this.#bars(values, x, y);
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(...this.#axis(width, top, y), ...marks.flat());
  }

  #bars(values, x, y) {
    return this.periods.map((period, n) => {
      const height = Math.max(1.5, y(0) - y(values[n].count));
      return svg("rect", { class: "scheduled", x: x(period), y: y(0) - height, width: Math.max(1, this.step - 1), height });
    });
  }

  /** A line over what follows each other; a point where nothing is next to it. */
  #line(name, values, x, y) {
    const points = [];
    let path = "";
    this.periods.forEach((period, n) => {
      const value = values[n][name];
      if (value === null) return;
      const at = [x(period) + this.step / 2, y(value)].map((part) => part.toFixed(1)).join(" ");
      const follows = n > 0 && values[n - 1][name] !== null && period.start_ms - this.periods[n - 1].start_ms === this.stepMs;
      path += `${follows ? "L" : "M"}${at}`;
      points.push(svg("circle", { class: name, cx: at.split(" ")[0], cy: at.split(" ")[1], r: 1.75 }));
    });
    return [svg("path", { class: `line ${name}`, d: path }), ...points];
  }

  *#axis(width, top, y) {
    for (const value of [0, top / 2, top].filter(Number.isInteger)) {
      yield svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) });
      yield svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.label(value));
    }
    const every = Math.ceil(this.slots / Math.max(2, Math.floor(width / 140)));
    for (let n = 0; n < this.slots; n += every) {
      const anchor = n === 0 ? "start" : "middle";
      yield svg("text", { x: LEFT + (n + (n ? 0.5 : 0)) * this.step, y: HEIGHT - 5, "text-anchor": anchor }, this.clock((this.first + n) * this.stepMs));
    }
  }

  #startAt(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    return (this.first + Math.min(this.slots - 1, Math.max(0, Math.floor((x - LEFT) / this.step)))) * this.stepMs;
  }

  #point(event) {
    if (!this.stepMs) return;
    const at = this.#startAt(event);
    const found = this.periods.find((period) => period.start_ms === at);
    setText(this.readout, `${this.clock(at)}: ${found ? this.says(found) : "nothing"}`);
  }
}
