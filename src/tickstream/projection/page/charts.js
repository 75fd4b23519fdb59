// The view over time: how late work was, by stage, and how much is to come, with its worst seconds.

import { forecast, lateness, queryString, serverNow } from "./api.js";
import * as cells from "./cells.js";
import { byId, make, setVerdict } from "./dom.js";
import { PeriodChart } from "./drawing.js";
import { count, counted, dayMinute, duration, instant, latency } from "./format.js";
import { Panel } from "./panel.js";
import { GRACE_MS } from "./sentences.js";
import { Table } from "./table.js";

const EVERY_MS = 10_000;
const HOUR_MS = 3_600_000;
const SPANS = { hour: [HOUR_MS, "minute"], day: [24 * HOUR_MS, "hour"], week: [7 * 24 * HOUR_MS, "hour"] };
const STEPS = { minute: 60_000, hour: HOUR_MS };
const STAGES = [
  ["due_to_started", "due → started"],
  ["due_to_decided", "due → decided"],
  ["decided_to_fetched", "decided → fetched"],
  ["fetched_to_started", "fetched → started"],
];

/** Both parts, shown and asked together. */
export class ChartsView {
  constructor(root) {
    this.root = root;
    this.parts = [new LatenessPanel(byId("lateness-over-time")), new ForecastPanel(byId("forecast"))];
  }

  open() {
    return Promise.all(this.parts.map((part) => part.open()));
  }

  update() {
    return Promise.all(this.parts.map((part) => part.update()));
  }
}

class LatenessPanel extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.span = byId("lateness-span");
    this.stage = byId("lateness-stage");
    this.stage.append(...STAGES.map(([value, name]) => make("option", { value }, name)));
    this.chart = new PeriodChart(byId("lateness-chart"), {
      read: (period) => ({ p50: period.stages[this.stage.value].p50_ms, p99: period.stages[this.stage.value].p99_ms }),
      lines: ["p50", "p99"],
      label: (ms) => (ms >= 10_000 ? duration(ms) : `${count(ms)} ms`),
      clock: (ms) => dayMinute(ms, this.now),
      says: (period) => stageSays(period.stages[this.stage.value]),
    });
    this.table = new Table(byId("lateness-table"), [
      cells.time("From", (row) => row.start_ms),
      cells.plain("Runs", (row) => count(row.stages.due_to_started.count), "num tight"),
      cells.plain("p50", (row) => latency(row.stages.due_to_started.p50_ms), "num tight"),
      cells.plain("p99", (row) => latency(row.stages.due_to_started.p99_ms), "num tight"),
      ...STAGES.slice(1).map(([key, name]) => cells.plain(name, (row) => latency(row.stages[key].p99_ms), "num wide stage", "p99")),
    ], "Lateness over time; p50 and p99 of due → started, then the p99 of each stage");
    for (const choice of [this.span, this.stage]) choice.addEventListener("change", () => this.open());
  }

  async ask() {
    const [spanMs, by] = SPANS[this.span.value];
    const end = await serverNow();
    const answer = await lateness({ by, start: end - spanMs, end });
    const { periods, stages, as_of: now } = answer;
    this.now = now;
    const total = stages.due_to_started;
    const worst = periods.reduce((a, b) => ((b.stages.due_to_started.p99_ms ?? -1) > (a?.stages.due_to_started.p99_ms ?? -1) ? b : a), null);
    const verdict = total.count
      ? {
        level: total.p99_ms > GRACE_MS ? "warn" : "good",
        says: `99 % started within ${latency(total.p99_ms)}`,
        detail: `Of ${counted(total.count, "run")}. Half within ${latency(total.p50_ms)}; the worst ${by} began at ${dayMinute(worst.start_ms, now)}: p99 ${latency(worst.stages.due_to_started.p99_ms)}.`,
      }
      : { level: "none", says: "Nothing has run", detail: "No task has ended in that time." };
    setVerdict(this.root, verdict);
    this.chart.update(periods, end - spanMs, end, STEPS[by], `${verdict.says}. ${verdict.detail}`);
    this.table.show([...periods].reverse(), (row) => row.start_ms, now);
    return "By the time the outcome was recorded; good to 6 %. A task that retries counts with its first start.";
  }
}

class ForecastPanel extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.horizon = byId("horizon");
    this.chart = new PeriodChart(byId("forecast-chart"), {
      read: (period) => ({ count: period.count }),
      clock: (ms) => dayMinute(ms, this.now),
      says: (period) => counted(period.count, "task"),
      open: (start) => { location.hash = dueHref(start, start + this.step); },
    });
    this.worst = new Table(byId("worst-seconds"), [
      { title: "Second", kind: "time", fill: fillSecond },
      cells.number("Tasks", (row) => row.count),
    ], "The seconds with the most tasks");
    this.queues = new Table(byId("forecast-queues"), [
      cells.text("Queue", (row) => row.queue),
      cells.number("Tasks", (row) => row.count),
    ], "Tasks to come by queue");
    this.horizon.addEventListener("change", () => this.open());
  }

  async ask() {
    const answer = await forecast({ horizon: this.horizon.value });
    this.step = answer.step_ms;
    this.now = answer.as_of;
    const [worst] = answer.worst_seconds;
    const verdict = {
      level: answer.total ? "good" : "none",
      says: answer.total ? `${counted(answer.total, "task")} in the next ${answer.horizon}` : `Nothing is due in the next ${answer.horizon}`,
      detail: worst ? `${answer.exact ? "" : "At least "}${count(worst.count)} in the worst second, at ${instant(worst.start_ms, answer.as_of)}.` : "",
    };
    setVerdict(this.root, verdict);
    this.chart.update(answer.periods, answer.start_ms, answer.end_ms, answer.step_ms, `${verdict.says}. ${verdict.detail}`);
    this.worst.show(answer.worst_seconds, (row) => row.start_ms, answer.as_of);
    const queues = Object.entries(answer.queues).map(([queue, n]) => ({ queue, count: n }));
    this.queues.show(queues.sort((a, b) => b.count - a.count), (row) => row.queue, answer.as_of);
    return answer.exact ? "Click a bar for its tasks." : "More are due than are counted one by one: the seconds are lower bounds. Click a bar for its tasks.";
  }
}

function stageSays({ count: n, p50_ms: p50, p99_ms: p99 }) {
  return n ? `p50 ${latency(p50)}, p99 ${latency(p99)} of ${counted(n, "run")}` : "nothing";
}

function dueHref(start, end) {
  return `#/list?${queryString({ state: "scheduled", start, end })}`;
}

function fillSecond(cell, row, now) {
  if (!cell.firstChild) cell.append(make("a", {}, make("time")));
  cell.firstChild.href = dueHref(row.start_ms, row.start_ms + 1_000);
  cells.setTime(cell.firstChild.firstChild, row.start_ms, now);
}
