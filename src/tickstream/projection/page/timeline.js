// Tasks by the time they are due: a stacked bar chart as SVG, to be moved in time and seen closer or wider, with its
// readout and its summary. The two hours around now come with the status; the rest is asked for.

import { counts } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { niceCeiling, short, svg } from "./drawing.js";
import { count, counted, dayMinute, instant, minute as clock } from "./format.js";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const HEIGHT = 132;
const TOP = 8;
const BOTTOM = 20;
const LEFT = 44;
const AGAIN_MS = 5_000;
/** How much is seen: on each side of the middle, by what periods, and how far apart labels may stand. */
const SIGHTS = [
  { name: "15 minutes", half: 7.5 * MINUTE_MS, by: "second", step: 1_000, labels: [MINUTE_MS, 5 * MINUTE_MS] },
  { name: "2 hours", half: HOUR_MS, by: "minute", step: MINUTE_MS, labels: [15 * MINUTE_MS, 30 * MINUTE_MS] },
  { name: "12 hours", half: 6 * HOUR_MS, by: "minute", step: MINUTE_MS, labels: [HOUR_MS, 3 * HOUR_MS] },
  { name: "2 days", half: DAY_MS, by: "hour", step: HOUR_MS, labels: [6 * HOUR_MS, 12 * HOUR_MS] },
  { name: "2 weeks", half: 7 * DAY_MS, by: "hour", step: HOUR_MS, labels: [DAY_MS, 4 * DAY_MS] },
];
const LIVE = 1; // the sight that the status shows

/** Bottom to top: what needs a look lies on the ground line. */
export const SERIES = ["late", "dead", "faulted", "held", "retrying", "running", "dispatched", "scheduled", "paused", "skipped", "cancelled", "succeeded"];

/** Periods in which what still waits is told apart as late: those over by `until`, ms UTC. */
export function withLate(periods, until, step) {
  return periods.map((m) => {
    const over = m.minute_ms + step <= until;
    return { ...m, late: over ? m.scheduled : 0, scheduled: over ? 0 : m.scheduled };
  });
}

export class Timeline {
  /** `open(start_ms, end_ms)`: a period was clicked. */
  constructor(box, open) {
    this.box = box;
    this.open = open;
    this.sight = LIVE;
    this.middle = null; // ms UTC, null: now
    this.minutes = [];
    this.askedAt = -Infinity;
    this.svg = svg("svg", { role: "img", height: HEIGHT, "aria-label": "Loading…" });
    this.readout = make("p", { className: "readout", ariaHidden: "true" });
    box.append(this.svg, this.readout, legend());
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => setText(this.readout, ""));
    this.svg.addEventListener("click", (event) => this.open(this.#periodAt(event), this.#periodAt(event) + SIGHTS[this.sight].step));
    const moves = { earlier: () => this.#move(-1), later: () => this.#move(1), now: () => this.#to(null, LIVE), closer: () => this.#look(-1), wider: () => this.#look(1) };
    for (const [name, move] of Object.entries(moves)) byId(`load-${name}`).addEventListener("click", move);
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** What the status says: these minutes (`withLate`) around `now`, complete up to `until`. */
  update(minutes, now, until) {
    Object.assign(this, { minutes, now, until });
    if (this.live) this.#show(minutes, summary(minutes, now));
    else this.#ask();
  }

  /** Whether it shows what the status says. */
  get live() {
    return this.sight === LIVE && this.middle === null;
  }

  #show(periods, says) {
    const drawn = JSON.stringify([periods, this.#start(), this.sight]);
    if (drawn === this.drawn) return;
    Object.assign(this, { drawn, periods });
    setText(byId("chart-says"), says);
    this.svg.setAttribute("aria-label", says);
    setText(byId("load-sight"), this.live ? "an hour back, an hour ahead, by the time they are due" : `${SIGHTS[this.sight].name}, by the time they are due`);
    this.#draw();
  }

  #start() {
    const { half, step } = SIGHTS[this.sight];
    return Math.floor(((this.middle ?? this.now) - half) / step) * step;
  }

  #move(direction) {
    if (!this.now) return;
    this.#to((this.middle ?? this.now) + direction * SIGHTS[this.sight].half, this.sight);
  }

  #look(direction) {
    this.#to(this.middle, Math.min(SIGHTS.length - 1, Math.max(0, this.sight + direction)));
  }

  #to(middle, sight) {
    Object.assign(this, { middle, sight, drawn: "" });
    this.askedAt = -Infinity;
    byId("load-closer").disabled = sight === 0;
    byId("load-wider").disabled = sight === SIGHTS.length - 1;
    if (this.now) this.update(this.minutes, this.now, this.until);
  }

  async #ask() {
    if (performance.now() - this.askedAt < AGAIN_MS) return;
    this.askedAt = performance.now();
    const { half, by, step } = SIGHTS[this.sight];
    const start = Math.max(0, this.#start());
    const here = `${this.middle} ${this.sight}`;
    try {
      const answer = await counts({ start, end: start + 2 * half, by });
      if (here !== `${this.middle} ${this.sight}`) return; // it was moved meanwhile
      const found = answer.periods.map((period) => ({ ...period, minute_ms: period.start_ms }));
      const more = answer.next_start === null && answer.exact ? "" : " There are more than are counted one by one.";
      this.#show(withLate(found, this.until, step), span(found, start, start + 2 * half, this.now) + more);
    } catch (error) {
      setText(byId("chart-says"), error.message);
      this.drawn = "";
    }
  }

  #draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || !this.now || !this.periods) return;
    const { half, step, labels } = SIGHTS[this.sight];
    const start = this.#start();
    const periods = Math.round((2 * half) / step) + 1;
    const px = (width - LEFT) / periods;
    const top = niceCeiling(Math.max(1, ...this.periods.map(sum)));
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    Object.assign(this, { start, px, count: periods });
    const x = (ms) => LEFT + ((ms - start) / step) * px;
    const parts = [...axis(start, periods * step, labels[width < 600 ? 1 : 0], width, top, x, y, this.now)];
    for (const m of this.periods) {
      let base = 0;
      for (const name of SERIES.filter((series) => m[series])) {
        // A few among thousands must still be seen.
        const height = Math.max(1.5, y(base) - y(base + m[name]));
        parts.push(svg("rect", { class: name, x: x(m.minute_ms), y: y(base) - height, width: Math.max(1, px - 1), height }));
        base += m[name];
      }
    }
    this.svg.setAttribute("width", width);
    this.svg.replaceChildren(...parts);
  }

  #periodAt(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const n = Math.floor((x - LEFT) / this.px);
    return this.start + Math.min(this.count - 1, Math.max(0, n)) * SIGHTS[this.sight].step;
  }

  #point(event) {
    const at = this.#periodAt(event);
    const found = this.periods.find((m) => m.minute_ms === at);
    setText(this.readout, `${this.sight === 0 ? instant(at, this.now) : dayMinute(at, this.now)}: ${found && sum(found) ? inWords(found) : "nothing"}`);
  }
}

/** What another stretch of time has, in a sentence. */
function span(periods, start, end, now) {
  const all = total(periods);
  const peak = periods.reduce((a, b) => (sum(b) > sum(a) ? b : a), { minute_ms: 0 });
  const most = all ? `, most at ${dayMinute(peak.minute_ms, now)} (${count(sum(peak))})` : "";
  return `${counted(all, "task")} due from ${dayMinute(start, now)} to ${dayMinute(end, now)}${most}.`;
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

function* axis(start, span, every, width, top, x, y, now) {
  for (const value of [0, top / 2, top].filter(Number.isInteger)) {
    yield svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) });
    yield svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value));
  }
  // Whole hours and days of the viewer's clock, whatever its offset is.
  const local = start - new Date(start).getTimezoneOffset() * MINUTE_MS;
  for (let at = start + (Math.ceil(local / every) * every - local); at < start + span; at += every) {
    const place = x(at);
    const anchor = place < LEFT + 20 ? "start" : place > width - 20 ? "end" : "middle";
    yield svg("text", { x: place, y: HEIGHT - 5, "text-anchor": anchor }, every < 6 * HOUR_MS ? clock(at) : dayMinute(at, now));
  }
  if (now < start || now > start + span) return;
  yield svg("line", { class: "now", x1: x(now), x2: x(now), y1: 0, y2: HEIGHT - BOTTOM });
}

function legend() {
  const items = SERIES.toReversed().map((name) =>
    make("li", {}, make("span", { className: `swatch ${name}` }), name),
  );
  return make("ul", { className: "legend", ariaHidden: "true" }, ...items);
}
