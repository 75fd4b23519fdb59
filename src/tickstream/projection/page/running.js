// The view of what is out: who holds each run, when it was heard of, and how long its lease has left.

import { running } from "./api.js";
import * as cells from "./cells.js";
import { byId, setVerdict } from "./dom.js";
import { counted, duration, plain } from "./format.js";
import { Panel } from "./panel.js";
import { condition } from "./queues.js";
import { lasting } from "./sentences.js";
import { IN_FLIGHT } from "./states.js";
import { rowKey, Table } from "./table.js";

const EVERY_MS = 1_000;
const SHOWN = 200;
const SCARCE = 0.25; // of a lease: less than that left is worth a look

export class RunningView extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.held = byId("held-only");
    this.table = new Table(byId("run-table"), [
      cells.time("Due", (row) => row.occurrence_ts, "wide"),
      cells.task(),
      cells.state(),
      cells.plain("For", lasting, "num", "since it was handed out, since it runs, or until its next attempt"),
      cells.text("Worker", (row) => row.worker, "wide"),
      cells.plain("Heard of", (row, now) => (row.heartbeat_ms === null ? "–" : `${duration(now - row.heartbeat_ms)} ago`), "num wide"),
      condition("Lease"),
      cells.text("Says", doing, "wide"),
      cells.plain("Attempt", (row) => String(row.attempt), "num tight wide"),
      cells.text("Queue", (row) => row.queue, "wide"),
      cells.text("Handler", (row) => row.handler, "wide"),
    ], "What is out, the one due longest ago first");
    this.held.addEventListener("change", () => this.open());
  }

  async ask() {
    const held = this.held.checked;
    const answer = await running({ state: held ? "running" : IN_FLIGHT, limit: SHOWN });
    const rows = answer.rows.map((row) => ({ ...row, ...leaseSays(row) }));
    const over = rows.filter((row) => row.level === "bad").length;
    const amount = `${answer.cursor === null ? "" : "more than "}${counted(rows.length, "run")}`;
    setVerdict(this.root, {
      level: over ? "bad" : rows.length ? "good" : "none",
      says: over ? `${counted(over, "lease")} over` : rows.length ? `${amount} ${held ? "held by workers" : "out"}` : "Nothing is out",
      detail: over ? "Not heard of for as long as their lease; the dispatcher gives such a run to another worker." : "",
    });
    this.table.show(rows, rowKey, answer.as_of);
    return answer.cursor === null ? "" : `The ${rows.length} due longest ago.`;
  }
}

/** A lease in words: how long it has left. */
export function leaseSays({ state, lease_ms: lease, lease_age_ms: age, lease_left_ms: left }) {
  if (age === null) return { level: "none", says: state === "running" ? "not known" : "nobody holds it" };
  if (left === null) return { level: "none", says: `heard of ${duration(age)} ago` };
  const of = `of ${duration(lease)}`;
  if (left < 0) return { level: "bad", says: `over for ${duration(-left)} (${of})` };
  return { level: left < lease * SCARCE ? "warn" : "good", says: `${duration(left)} left ${of}` };
}

function doing({ progress, note }) {
  return [progress === null ? "" : `${Math.round(progress * 100)} %`, plain(note)].filter(Boolean).join(", ");
}
