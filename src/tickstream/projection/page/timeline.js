// Tasks per minute, an hour back and an hour ahead: a stacked bar chart as SVG, its readout and its summary.

import { byId, make, setText } from "./dom.js";
import { niceCeiling, short, svg } from "./drawing.js";
import { count, counted, minute as clock } from "./format.js";

const MINUTE_MS = 60_000;
const HALF = 60; // minutes each side
const HEIGHT = 132;
const TOP = 8;
const BOTTOM = 20;
const LEFT = 44;

/** Bottom to top: what needs a look lies on the ground line. */
export const SERIES = ["late", "dead", "faulted", "held", "retrying", "running", "dispatched", "scheduled", "paused", "skipped", "cancelled", "succeeded"];

/** Minutes in which what still waits is told apart as late: those over by `until`, ms UTC. */
export function withLate(minutes, until) {
  return minutes.map((m) => {
    const over = m.minute_ms + MINUTE_MS <= until;
    return { ...m, late: over ? m.scheduled : 0, scheduled: over ? 0 : m.scheduled };
  });
}

export class Timeline {
  /** `open(minute_ms)`: a minute was clicked. */
  constructor(box, open) {
    this.box = box;
    this.open = open;
    this.minutes = [];
    this.svg = svg("svg", { role: "img", height: HEIGHT, "aria-label": "Loading…" });
    this.readout = make("p", { className: "readout", ariaHidden: "true" });
    box.append(this.svg, this.readout, legend());
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => setText(this.readout, ""));
    this.svg.addEventListener("click", (event) => this.open(this.#minuteAt(event)));
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** Show these minutes (`withLate`) around `now`. */
  update(minutes, now) {
    const drawn = JSON.stringify([minutes, Math.floor(now / MINUTE_MS)]);
    if (drawn === this.drawn) return;
    Object.assign(this, { drawn, minutes, now });
    setText(byId("chart-says"), summary(minutes, now));
    this.svg.setAttribute("aria-label", summary(minutes, now));
    this.#draw();
  }

  #draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || !this.now) return;
    const first = Math.floor(this.now / MINUTE_MS) - HALF;
    const step = (width - LEFT) / (2 * HALF + 1);
    const top = niceCeiling(Math.max(1, ...this.minutes.map(sum)));
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    Object.assign(this, { first, step });
    const parts = [...axis(first, step, width, top, y)];
    for (const m of this.minutes) {
      const x = LEFT + (m.minute_ms / MINUTE_MS - first) * step;
      let base = 0;
      for (const name of SERIES.filter((series) => m[series])) {
        // A few among thousands must still be seen.
        const height = Math.max(1.5, y(base) - y(base + m[name]));
        parts.push(svg("rect", { class: name, x, y: y(base) - height, width: Math.max(1, step - 1), height }));
        base += m[name];
      }
    }
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(...parts);
  }

  #minuteAt(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const n = Math.floor((x - LEFT) / this.step);
    return (this.first + Math.min(2 * HALF, Math.max(0, n))) * MINUTE_MS;
  }

  #point(event) {
    const at = this.#minuteAt(event);
    const found = this.minutes.find((m) => m.minute_ms === at);
    setText(this.readout, `${clock(at)}: ${found ? inWords(found) : "nothing"}`);
  }
}

/** "1,200 succeeded, 3 dead". */
export function inWords(minute) {
  return SERIES.filter((name) => minute[name]).reverse().map((name) => `${count(minute[name])} ${name}`).join(", ");
}

function summary(minutes, now) {
  const here = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const past = minutes.filter((m) => m.minute_ms < here);
  const coming = minutes.filter((m) => m.minute_ms > here);
  const peak = coming.reduce((a, b) => (sum(b) > sum(a) ? b : a), { minute_ms: 0 });
  const ahead = coming.length
    ? `${counted(total(coming), "task")} in the next hour, most at ${clock(peak.minute_ms)} (${count(sum(peak))}).`
    : "Nothing in the next hour.";
  const late = minutes.reduce((all, m) => all + m.late, 0);
  const behind = past.length ? `${counted(total(past), "task")} in the last hour${late ? `, ${count(late)} of them late` : ""}.` : "Nothing in the last hour.";
  return `${behind} ${ahead}`;
}

/** Rows of a minute, whatever their state. */
export function sum(minute) {
  return SERIES.reduce((all, name) => all + (minute[name] ?? 0), 0);
}

function total(minutes) {
  return minutes.reduce((all, m) => all + sum(m), 0);
}

function* axis(first, step, width, top, y) {
  for (const value of [0, top / 2, top].filter(Number.isInteger)) {
    yield svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) });
    yield svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value));
  }
  const every = width < 600 ? 30 : 15;
  for (let n = 0; n <= 2 * HALF; n++) {
    if ((first + n) % every) continue;
    const anchor = n < 3 ? "start" : n > 2 * HALF - 3 ? "end" : "middle";
    yield svg("text", { x: LEFT + (n + 0.5) * step, y: HEIGHT - 5, "text-anchor": anchor }, clock((first + n) * MINUTE_MS));
  }
  const now = LEFT + (HALF + 0.5) * step;
  yield svg("line", { class: "now", x1: now, x2: now, y1: 0, y2: HEIGHT - BOTTOM });
}

function legend() {
  const items = SERIES.toReversed().map((name) =>
    make("li", {}, make("span", { className: `swatch ${name}` }), name),
  );
  return make("ul", { className: "legend", ariaHidden: "true" }, ...items);
}
