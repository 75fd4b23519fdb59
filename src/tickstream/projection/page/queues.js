// The view of queues and who works on them.

import { queryString, queues } from "./api.js";
import * as cells from "./cells.js";
import { byId, make, setText, setVerdict } from "./dom.js";
import { count, duration, plain } from "./format.js";
import { brokerSays, gatesSay, queueSays, queuesSay } from "./installation.js";
import { Panel } from "./panel.js";
import { Table } from "./table.js";

const EVERY_MS = 2_000;

/** The queues of an answer, each with what it means. */
export function judged({ queues: found, as_of: now, of_buckets: buckets }) {
  return found.map((queue) => ({ ...queue, ...queueSays(queue, now, buckets), gates: gatesSay(queue, buckets) }));
}

export class QueuesView extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.table = new Table(byId("queue-table"), [
      queueLink(),
      condition(),
      cells.plain("Gate", (row) => row.gates, "gate wide", "what is let through at once or in a time, in each bucket"),
      cells.plain("Waiting", (row) => known(row.work_waiting), "num tight", "handed out, not yet taken by a worker"),
      cells.number("Running", (row) => row.running, "tight wide"),
      cells.plain("Workers", (row) => known(row.workers), "num tight"),
      cells.number("Overdue", (row) => row.overdue, "tight wide", "due and not handed out"),
      cells.plain("Oldest", (row, now) => (row.oldest_ts === null ? "–" : duration(now - row.oldest_ts)), "num tight wide", "how long the oldest overdue one waits"),
      ...["held", "retrying", "dead", "scheduled"].map((state) =>
        cells.number(state[0].toUpperCase() + state.slice(1), (row) => row[state], "tight wide")),
    ], "Queues, and who works on them");
  }

  async ask() {
    const answer = await queues();
    const rows = judged(answer);
    setVerdict(this.root, queuesSay(rows));
    this.table.show(rows, (row) => row.queue, answer.as_of);
    this.table.element.classList.toggle("gated", rows.some((row) => row.limits.length > 0));
    const cut = answer.exact ? "" : " More are overdue than are counted one by one.";
    return brokerSays(answer.broker, answer.as_of) + cut;
  }
}

/** A column that says in words how something is, coloured by its level too. */
export function condition(title = "Condition") {
  return {
    title,
    kind: "condition",
    fill(cell, row) {
      if (cell.dataset.level !== row.level) cell.dataset.level = row.level;
      if (cell.title !== row.says) cell.title = row.says;
      setText(cell, row.says);
    },
  };
}

/** A column with the queue, a link to its tasks. */
export function queueLink() {
  return { title: "Queue", kind: "text", fill: fillName };
}

function known(n) {
  return n === null ? "–" : count(n);
}

function fillName(cell, { queue }) {
  if (!cell.firstChild) cell.append(make("a", {}, make("bdi")));
  const link = cell.firstChild;
  const href = `#/list?${queryString({ queue })}`;
  if (link.getAttribute("href") !== href) link.href = href;
  if (link.title !== queue) link.title = plain(queue);
  setText(link.firstChild, plain(queue));
}
