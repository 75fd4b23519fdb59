// The first view: verdicts, load, and what is late, failed, out, coming and finished.

import { queryString, queues, tasks } from "./api.js";
import * as cells from "./cells.js";
import { byId, make, setText, setVerdict, show } from "./dom.js";
import { count, duration, latency } from "./format.js";
import { condition, judged, queueLink } from "./queues.js";
import { Recent } from "./recent.js";
import * as sentences from "./sentences.js";
import { IN_FLIGHT, MEANINGS, STATES } from "./states.js";
import { rowKey, Table } from "./table.js";
import { inWords, sum, Timeline, withLate } from "./timeline.js";

const SHOWN = 15;
const QUEUES_MS = 5_000;
const MINUTE_MS = 60_000;
const due = cells.time("Due", (row) => row.occurrence_ts);
const handler = cells.text("Handler", (row) => row.handler, "wide");
const queue = cells.text("Queue", (row) => row.queue, "wide");

/** Where a list of tasks is shown on this page. */
export function listHref(query) {
  return `#/list?${queryString(query)}`;
}

export class Overview {
  constructor(root, openPeriod) {
    this.root = root;
    this.recent = new Recent();
    this.fetching = false;
    this.queuesAt = -Infinity;
    this.timeline = new Timeline(byId("chart"), openPeriod);
    this.stages = new Table(byId("stages"), [
      cells.plain("Stage", (row) => row.name),
      cells.plain("p50", (row) => latency(row.p50_ms), "num tight"),
      cells.plain("p99", (row) => latency(row.p99_ms), "num tight"),
      { title: "", kind: "bar", fill: fillBar, hint: "p99 beside the longest" },
    ]);
    this.lateQueues = new Table(byId("late-queues"), [
      { title: "Queue", fill: fillQueue },
      cells.number("Late", (row) => row.count, "tight"),
      cells.time("Oldest", (row) => row.oldest_ts),
    ]);
    this.buckets = new Table(byId("bucket-table"), [
      cells.number("Bucket", (row) => row.bucket),
      cells.plain("Complete up to", (row) => (row.applied_before_ms ? `${duration(row.lag_ms)} ago` : "–"), "num"),
      cells.plain("Condition", sentences.bucketSays),
      cells.number("timers", (row) => row.timers, "wide", "next offset to be folded"),
      cells.number("history", (row) => row.history, "wide", "next offset to be folded"),
    ]);
    this.minutes = new Table(byId("minute-table"), [
      { title: "Minute", kind: "time", fill: fillMinute },
      cells.number("All", sum),
      cells.plain("By state", inWords),
    ]);
    this.lists = {
      troubled: new Table(list("troubled"), [queueLink(), condition()], "Queues that need a look"),
      overdue: new Table(list("overdue"), [
        due,
        cells.plain("Waits", (row, now) => duration(now - row.occurrence_ts), "num"),
        cells.task(), queue, handler,
      ], "Late tasks, oldest first"),
      failed: new Table(list("failed"), [
        cells.time("Last", (row) => row.at_ms),
        cells.number("Times", (row) => row.times, "narrow"),
        cells.text("Handler", (row) => row.handler),
        cells.text("Error", (row) => row.error, "error"),
        cells.task(),
      ], "Latest failures by handler and error"),
      out: new Table(list("out"), [
        due,
        cells.state(),
        cells.plain("For", sentences.lasting, "num", "since it was handed out, since it runs, or until its next attempt"),
        cells.task(),
        cells.text("Worker", (row) => row.worker, "wide"),
      ], "Tasks handed out, without an outcome yet, oldest first"),
      coming: new Table(list("coming"), [
        due,
        cells.plain("In", (row, now) => duration(row.occurrence_ts - now), "num"),
        cells.task(), queue, handler,
      ], "Next tasks"),
      finished: new Table(list("finished"), [
        due,
        cells.plain("Late", (row) => span(row.occurrence_ts, row.started_ms), "num tight", "due → started"),
        cells.plain("Took", (row) => span(row.started_ms, row.ended_ms), "num tight wide", "started → ended"),
        cells.state(),
        cells.task(), handler,
      ], "Tasks that finished last"),
    };
  }

  /** There is no answer yet, and this is why. */
  unknown(reason) {
    for (const id of ["late", "where", "truth"]) setVerdict(byId(id), { level: "unknown", says: "Not known", detail: reason });
    for (const id of ["failed", "out", "coming", "finished"]) setNote(id, "Not known yet.");
  }

  /** Take in a status; then bring the lists up to date, unless that is under way. */
  update(status) {
    const now = status.as_of;
    setVerdict(byId("late"), sentences.lateness(status));
    setVerdict(byId("truth"), sentences.truth(status));
    setVerdict(byId("where"), sentences.where(status));
    this.stages.show(status.lateness.stages.due_to_started.count ? sentences.stageRows(status) : [], (row) => row.name, now);
    const late = sentences.isLate(status);
    const queues = Object.entries(status.overdue.queues).map(([name, of]) => ({ name, now, ...of }));
    this.lateQueues.show(late ? queues.sort((a, b) => a.oldest_ts - b.oldest_ts) : [], (row) => row.name, now);
    show(byId("buckets"), true);
    this.buckets.show(status.buckets, (row) => row.bucket, now);
    this.#load(status);
    this.#failures(status);
    this.#fetch(status, late);
  }

  #load(status) {
    const until = sentences.completeUntil(status) - sentences.GRACE_MS;
    const minutes = withLate(status.minutes, until, MINUTE_MS);
    this.timeline.update(minutes, status.as_of, until);
    show(byId("minutes"), this.timeline.live && minutes.length > 0);
    if (byId("minutes").open) this.minutes.show(minutes, (row) => row.minute_ms, status.as_of);
    const totals = byId("totals");
    if (!totals.firstChild) {
      totals.append(...STATES.map((name) => make("div", { title: MEANINGS[name] }, make("dt", {}, make("a", { href: listHref({ state: name }) }, name)), make("dd", { id: `total-${name}` }))));
    }
    for (const name of STATES) setText(byId(`total-${name}`), count(status.totals[name]));
  }

  #failures({ failures, totals, as_of: now }) {
    const groups = new Map();
    for (const failure of failures) {
      const key = JSON.stringify([failure.handler, failure.error]);
      const group = groups.get(key) ?? { ...failure, key, times: 0 };
      group.times += 1;
      groups.set(key, group);
    }
    this.lists.failed.show([...groups.values()], (row) => row.key, now);
    setAside("failed", totals.dead ? `the latest ${count(failures.length)} of ${count(totals.dead)}, by handler and error` : "");
    setNote("failed", failures.length ? "" : "Nothing has failed.");
  }

  async #fetch(status, late) {
    if (this.fetching) return;
    this.fetching = true;
    try {
      await Promise.all([this.#overdue(status, late), this.#out(status), this.#coming(status), this.#finished(status), this.#troubled()]);
    } finally {
      this.fetching = false;
    }
  }

  async #overdue(status, late) {
    show(byId("overdue"), late);
    if (!late) return;
    const end = sentences.completeUntil(status) - sentences.GRACE_MS;
    const query = { state: "scheduled", end };
    await fill("overdue", async () => {
      const page = await tasks({ ...query, limit: SHOWN });
      this.lists.overdue.show(page.rows, rowKey, status.as_of);
      setMore("overdue", page.cursor && { state: "scheduled", end }, "All that are late");
      return "";
    });
  }

  /** The queues that need a look; asked for seldom, since most never do. */
  async #troubled() {
    if (performance.now() - this.queuesAt < QUEUES_MS) return;
    this.queuesAt = performance.now();
    await fill("troubled", async () => {
      const answer = await queues();
      const rows = judged(answer).filter(({ level }) => level === "bad" || level === "warn");
      this.lists.troubled.show(rows, (row) => row.queue, answer.as_of);
      show(byId("troubled"), rows.length > 0);
      return "";
    });
  }

  #out({ as_of: now, totals }) {
    setAside("out", IN_FLIGHT.filter((name) => totals[name]).map((name) => `${count(totals[name])} ${name}`).join(", "));
    return fill("out", async () => {
      const page = await tasks({ state: IN_FLIGHT, limit: SHOWN });
      this.lists.out.show(page.rows, rowKey, now);
      setMore("out", page.cursor && { state: IN_FLIGHT }, "All that are out");
      return page.rows.length ? "" : "Nothing is out.";
    });
  }

  #coming({ as_of: now, totals }) {
    setAside("coming", totals.scheduled ? `${count(totals.scheduled)} scheduled` : "");
    return fill("coming", async () => {
      const page = await tasks({ state: "scheduled", start: now, limit: SHOWN });
      this.lists.coming.show(page.rows, rowKey, now);
      setMore("coming", page.cursor && { state: "scheduled", start: now }, "All that come up");
      return page.rows.length ? "" : "Nothing is scheduled.";
    });
  }

  #finished({ as_of: now }) {
    return fill("finished", async () => {
      const { rows, spanMs, whole } = await this.recent.fetch(now);
      this.lists.finished.show(rows.slice(0, SHOWN), rowKey, now);
      setAside("finished", rows.length ? `${whole ? "the latest" : "some"} of those due in the last ${duration(spanMs)}` : "");
      return rows.length ? "" : `Nothing that was due in the last ${duration(spanMs)} has finished.`;
    });
  }
}

function list(id) {
  return byId(id).querySelector("table");
}

/** Run `work`; its result, or the error in words, is the list's note. */
async function fill(id, work) {
  try {
    setNote(id, await work());
  } catch (error) {
    setNote(id, `${error.message} (trying again)`, true);
  }
}

function setNote(id, text, failed = false) {
  const note = byId(id).querySelector(".note");
  setText(note, text);
  note.classList.toggle("problem", failed);
}

function setAside(id, text) {
  setText(byId(id).querySelector(".aside"), text);
}

function setMore(id, query, words) {
  let more = byId(id).querySelector(".more");
  if (!more) {
    more = make("p", { className: "more" }, make("a", {}, words));
    byId(id).append(more);
  }
  show(more, Boolean(query));
  if (query) more.firstChild.href = listHref(query);
}

function span(from, to) {
  return from === null || to === null ? "–" : latency(to - from);
}

function fillBar(cell, { share }) {
  if (share === null) return;
  if (!cell.firstChild) cell.append(make("span", { ariaHidden: "true" }));
  cell.firstChild.style.inlineSize = `${Math.round(share * 100)}%`;
}

function fillQueue(cell, row) {
  if (!cell.firstChild) cell.append(make("a", {}, make("bdi")));
  cell.firstChild.href = listHref({ state: "scheduled", queue: row.name, end: row.now });
  setText(cell.firstChild.firstChild, row.name);
}

function fillMinute(cell, row, now) {
  if (!cell.firstChild) cell.append(make("a", {}, make("time")));
  cell.firstChild.href = listHref({ start: row.minute_ms, end: row.minute_ms + 60_000 });
  cells.setTime(cell.firstChild.firstChild, row.minute_ms, now);
}

