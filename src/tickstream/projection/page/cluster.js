// The view of the installation: lanes with their owners, every bucket, who is a member, and what changed.

import { changes, cluster, serverNow } from "./api.js";
import * as cells from "./cells.js";
import { byId, setVerdict, show } from "./dom.js";
import { count, duration, words } from "./format.js";
import { brokerSays, bucketSays, changeSays, clusterSays, laneSays, restored } from "./installation.js";
import { Panel } from "./panel.js";
import { condition } from "./queues.js";
import { Table } from "./table.js";

const EVERY_MS = 2_000;
const CHANGES = 50;
const WEEK_MS = 7 * 24 * 3_600_000;

export class ClusterView extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.seen = new Map(); // of a bucket being restored: where it was when it was seen first, and when
    const owner = cells.text("Owner", (row) => row.owner, "owner");
    const waiting = cells.plain("Pending", (row) => known(row.commands_waiting), "num tight", "commands that the dispatcher has not applied yet");
    this.changes = new Table(byId("change-table"), [
      cells.time("When", (row) => row.at_ms),
      cells.plain("What", changeSays, "condition"),
    ], "What changed, latest first");
    this.lanes = new Table(byId("lane-table"), [
      cells.number("Lane", (row) => row.lane, "narrow"),
      owner,
      condition(),
      cells.time("Since", (row) => row.claimed_ms, "wide"),
      cells.plain("Lag", (row) => (row.lag_ms === null ? "–" : duration(row.lag_ms)), "num tight"),
      waiting,
      cells.plain("Buckets", (row) => words(row.buckets, 8), "wide buckets"),
    ], "Lanes and their owners");
    this.buckets = new Table(byId("bucket-list"), [
      cells.number("Bucket", (row) => row.bucket, "narrow"),
      cells.plain("Lane", (row) => known(row.lane), "num narrow wide"),
      owner,
      condition(),
      cells.plain("Lag", (row) => (row.applied_before_ms ? duration(row.lag_ms) : "–"), "num tight"),
      { ...waiting, kind: "num tight wide" },
      cells.plain("To read", (row) => known(restored(row)?.left ?? null), "num tight wide", "records that the projection has not read yet"),
      cells.text("Zone data", (row) => row.tzdata, "wide"),
    ], "Buckets, the slowest first");
    this.members = new Table(byId("member-table"), [
      cells.plain("Works for", (row) => row.of, "of"),
      cells.text("Name", (row) => row.name, "owner"),
      cells.text("Host", (row) => row.host, "wide"),
      cells.plain("Has", (row) => row.has),
    ], "Dispatchers and workers");
  }

  async ask() {
    const [answer, strip] = await Promise.all([cluster(), changes({ start: (await serverNow()) - WEEK_MS, limit: CHANGES })]);
    const now = answer.as_of;
    setVerdict(this.root, clusterSays(answer));
    this.changes.show(strip.changes, (row) => JSON.stringify(row), now);
    show(byId("no-changes"), strip.changes.length === 0);
    this.lanes.show(answer.lanes.map((row) => ({ ...row, ...laneSays(row) })), (row) => row.lane, now);
    const buckets = answer.buckets.map((row) => ({ ...row, ...bucketSays(row, this.#rate(row, now)) }));
    this.buckets.show(buckets.sort((a, b) => b.lag_ms - a.lag_ms || a.bucket - b.bucket), (row) => row.bucket, now);
    this.members.show(members(answer), (row) => JSON.stringify(row), now);
    return brokerSays(answer.broker, now);
  }

  /** Records a second at which a bucket is restored, since this page saw it first; 0: not known. */
  #rate(bucket, now) {
    if (!bucket.restoring) {
      this.seen.delete(bucket.bucket);
      return 0;
    }
    const read = bucket.timers + bucket.history;
    const first = this.seen.get(bucket.bucket);
    if (!first || read < first.read) this.seen.set(bucket.bucket, { read, at: now });
    return first && now > first.at && read >= first.read ? ((read - first.read) * 1_000) / (now - first.at) : 0;
  }
}

function members({ dispatchers, workers }) {
  const rows = dispatchers.map(({ instance, host, lanes }) => ({
    of: "dispatching",
    name: instance,
    host,
    has: lanes.length ? `${lanes.length === 1 ? "lane" : "lanes"} ${words(lanes, 8)}` : "no lane: stands by",
  }));
  for (const [queue, of] of Object.entries(workers)) {
    for (const { worker, host, partitions } of of) {
      rows.push({ of: `queue ${queue}`, name: worker, host, has: partitions === 1 ? "1 partition" : `${count(partitions)} partitions` });
    }
  }
  return rows;
}

function known(n) {
  return n === null ? "–" : count(n);
}
