// The view of one task: where it stands, every occurrence, and every attempt where there was more than one.

import { queryString, task } from "./api.js";
import * as cells from "./cells.js";
import { byId, make, setText, setVerdict, show } from "./dom.js";
import * as format from "./format.js";
import { lasting } from "./sentences.js";
import { LEVELS, MEANINGS } from "./states.js";
import { rowKey, Table } from "./table.js";

export class TaskView {
  constructor(root) {
    this.root = root;
    this.id = "";
    this.fetching = false;
    this.zone = null; // of a recurring task
    this.table = new Table(byId("occurrences"), [
      cells.time("Due", (row) => row.occurrence_ts),
      cells.state(),
      cells.plain("In its zone", (row) => (this.zone && format.wall(row.occurrence_ts, this.zone)) ?? "–", "there wide"),
      cells.plain("Attempt", (row) => (row.attempt ? String(row.attempt) : "–"), "num tight wide"),
      cells.plain("Decided", after("decided_ms"), "num tight wide", "after it was due"),
      cells.plain("Fetched", after("fetched_ms"), "num tight wide", "after it was due"),
      cells.plain("Started", after("started_ms"), "num tight", "after it was due"),
      cells.plain("Took", (row) => (row.started_ms && row.ended_ms ? format.duration(row.ended_ms - row.started_ms) : "–"), "num tight"),
      cells.text("Worker", (row) => row.worker, "wide"),
      cells.text("Error", (row) => row.error, "error"),
    ], "Occurrences of this task; times count from when it was due");
    this.attempts = new Table(byId("attempts"), [
      cells.time("Due", (row) => row.occurrence_ts),
      cells.state((row) => ATTEMPT_WORDS[row.state] ?? row.state),
      cells.plain("Attempt", (row) => String(row.attempt), "num tight"),
      cells.plain("Started", after("started_ms"), "num tight wide", "after it was due"),
      cells.plain("Ended", after("ended_ms"), "num tight wide", "after it was due"),
      cells.text("Worker", (row) => row.worker),
      cells.text("Error or result", (row) => row.error || row.result, "error"),
    ], "Attempts of this task; times count from when it was due");
  }

  /** Show the task with this id. */
  open(id) {
    if (id !== this.id) {
      this.id = id;
      byId("task-h").replaceChildren("Task ", make("bdi", { className: "id" }, format.plain(id)));
      setVerdict(this.root, { level: "none", says: "Loading…" });
      this.root.querySelector(".facts").replaceChildren();
      this.#occurrences([], [], 0);
      this.#payload(null);
    }
    return this.update();
  }

  /** Ask again. */
  async update() {
    if (this.fetching) return;
    this.fetching = true;
    const id = this.id;
    try {
      const answer = await task(id);
      if (id === this.id) this.#show(answer);
    } catch (error) {
      if (id === this.id) setVerdict(this.root, { level: "bad", says: error.message });
    } finally {
      this.fetching = false;
    }
    if (id !== this.id) await this.update();
  }

  #show({ task: found, occurrences, attempts, as_of: now, staleness_ms: behind }) {
    this.zone = found?.schedule?.zone ?? null;
    byId("occurrences").classList.toggle("zoned", this.zone !== null);
    this.#occurrences(occurrences, attempts, now);
    if (found === null) {
      setVerdict(this.root, {
        level: "none",
        says: "No task has this id",
        detail: `Not as of ${format.duration(behind)} ago: there was none, or it ended so long ago that it is forgotten.`,
      });
      const link = make("a", { href: `#/list?${queryString({ id_prefix: this.id })}` }, "Look for ids that begin like this");
      facts(this.root, [["", link]]);
      this.#payload(null);
      return;
    }
    setVerdict(this.root, { level: LEVELS[found.state] ?? "none", ...says(found, occurrences, attempts, now) });
    facts(this.root, [
      ["Queue", outside(found.queue)],
      ["Handler", outside(found.handler)],
      ["Labels", outside(Object.entries(found.labels).map(([k, v]) => `${k}: ${v}`).join(", "))],
      ...recurs(found.schedule),
      ["Next due", instant(found.next_occurrence_ts, now, this.zone)],
      ["Last due", instant(found.last_occurrence_ts, now, this.zone)],
      ["Ended", instant(found.ended_ms, now)],
      ["Definition", found.rev ?? "–"],
      ["Payload", payload(found.payload)],
    ]);
    this.#payload(found.payload?.text ?? null);
  }

  #payload(text) {
    setText(byId("payload"), format.plain(text ?? ""));
    show(byId("payload").parentElement, text !== null);
  }

  #occurrences(rows, attempts, now) {
    const latestFirst = [...rows].reverse();
    this.table.show(latestFirst, rowKey, now);
    show(byId("occurrences-h"), rows.length > 0);
    // Where every occurrence took one attempt, and returned nothing, they would say the same again.
    const more = attempts.length > rows.length || attempts.some((row) => row.attempt > 1 || row.result);
    this.attempts.show(more ? [...attempts].reverse() : [], attemptKey, now);
    show(byId("attempts-h"), more);
  }
}

const ATTEMPT_WORDS = { attempt_failed: "failed", lease_expired: "lease expired", moved: "moved" };

function attemptKey(row) {
  return `${row.occurrence_ts} ${row.attempt} ${row.state}`;
}

/** The verdict and, of a task between two attempts, why. */
function says(found, occurrences, attempts, now) {
  const last = occurrences.at(-1);
  const failed = attempts.findLast((row) => row.state in ATTEMPT_WORDS);
  const detail = failed && found.state in { running: 1, dispatched: 1, retrying: 1 } ? `Attempt ${failed.attempt}: ${format.plain(failed.error)}` : "";
  const runs = attempts.findLast((row) => row.heartbeat_ms !== null);
  return { says: words(found, last, now), detail: [runs && heard(runs, now), detail].filter(Boolean).join(" ") };
}

/** "37 %, sending; heard of 1.2 s ago." */
function heard({ heartbeat_ms: at, progress, note }, now) {
  const said = [progress === null ? "" : `${Math.round(progress * 100)} %`, format.plain(note)].filter(Boolean).join(", ");
  return `${said ? `${said}; heard` : "Heard"} of ${format.duration(now - at)} ago.`;
}

function words(found, last, now) {
  switch (found.state) {
    case "scheduled": {
      const ahead = found.next_occurrence_ts - now;
      return ahead >= 0 ? `Scheduled: due in ${format.duration(ahead)}` : `Scheduled: was due ${format.duration(-ahead)} ago and is not handed out yet`;
    }
    case "dispatched":
      return last?.decided_ms ? `Dispatched ${format.duration(now - last.decided_ms)} ago; no outcome yet` : "Dispatched; no outcome yet";
    case "running":
      return `Running on ${format.plain(last?.worker ?? "?")} for ${lasting(last, now)}${last?.attempt > 1 ? `, attempt ${last.attempt}` : ""}`;
    case "retrying":
      return `Retrying: attempt ${last?.attempt ?? "?"} ${lasting(last, now)}`;
    case "succeeded":
      return `Succeeded ${ago(last, now)}`;
    case "dead":
      return `Dead: given up ${ago(last, now)} after attempt ${last?.attempt ?? "?"}`;
    case "cancelled":
      return last?.attempt ? `Cancelled after attempt ${last.attempt}` : "Cancelled before it was handed out";
    case "held":
    case "paused":
    case "faulted":
    case "skipped":
      return `${found.state[0].toUpperCase()}${found.state.slice(1)}: ${found.reason ? format.plain(found.reason) : MEANINGS[found.state]}`;
    default:
      return "Its state is not known";
  }
}

function ago(row, now) {
  return row?.ended_ms ? `${format.duration(now - row.ended_ms)} ago` : "";
}

function after(name) {
  return (row) => (row[name] === null ? "–" : `+${format.duration(row[name] - row.occurrence_ts)}`);
}

/** "42 bytes of JSON, hidden". */
function payload(found) {
  if (found === null) return "–";
  const what = { json: " of JSON", text: " of text", bytes: "" }[found.form];
  return `${format.counted(found.bytes, "byte")}${what}${found.text === null ? ", hidden" : ""}`;
}

function outside(text) {
  return make("bdi", {}, format.plain(text) || "–");
}

/** In the viewer's zone; on the clock of `zone` beside it. */
function instant(ms, now, zone = null) {
  const time = make("time");
  cells.setTime(time, ms, now);
  const there = zone && ms !== null ? format.wall(ms, zone) : null;
  return there ? make("span", {}, time, make("br"), `${there} in ${zone}`) : time;
}

/** What a recurring task's rule says: facts. */
function recurs(schedule) {
  if (schedule === null) return [];
  const { kind, rule, interval_ms: interval, zone, misfire, overlap } = schedule;
  const says = kind === "every" ? `every ${format.duration(interval)}` : `${kind} ${format.plain(rule)}`;
  return [
    ["Recurs", outside(says)],
    ["Zone", outside(zone)],
    ["When missed, when still running", `${misfire}, ${overlap}`],
  ];
}

/** Name and value pairs; written anew only when they differ. */
function facts(root, pairs) {
  const list = root.querySelector(".facts");
  const next = pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  const same = next.length === list.children.length && next.every((div, n) => div.isEqualNode(list.children[n]));
  if (!same) list.replaceChildren(...next);
}

