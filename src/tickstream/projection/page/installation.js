// What queues, lanes, buckets and changes mean, in plain words. Pure: answers in, sentences out; no DOM, no clock.

import { count, counted, duration, plain, words } from "./format.js";
import { STALE_MS } from "./sentences.js";

/** Why a queue needs a look: `{level, says}`; level "good" where it does not. `buckets`: how many there are. */
export function queueSays(queue, now, buckets) {
  const handed = queue.work_waiting ?? queue.dispatched;
  const says = [];
  let level = "good";
  const add = (worst, text) => {
    if (level !== "bad") level = worst;
    says.push(text);
  };
  if (queue.paused_buckets >= buckets) add("warn", "paused");
  else if (queue.paused_buckets) add("warn", `paused in ${queue.paused_buckets} of ${buckets} buckets`);
  if (queue.workers === 0 && (handed || queue.dispatched)) add("bad", `${count(Math.max(handed, queue.dispatched))} waiting, 0 workers`);
  if (queue.overdue) add("bad", `${count(queue.overdue)} overdue, the oldest for ${duration(now - queue.oldest_ts)}`);
  if (queue.faulted) add("bad", `${count(queue.faulted)} faulted`);
  if (queue.held) add("warn", `${count(queue.held)} held at a gate`);
  if (queue.exists === false && (queue.scheduled || queue.dispatched)) add("bad", "no such queue on the broker");
  if (says.length) return { level, says: says.join("; ") };
  if (queue.workers === null) return { level: "none", says: "workers not known" };
  return { level: "good", says: queue.workers ? "well" : "nothing waits, 0 workers" };
}

/** Its gates: "at most 4 at once, 10 starts in 1.0 s (each bucket)"; "–" where there is none. */
export function gatesSay(queue, buckets) {
  if (!queue.limits.length) return "–";
  return queue.limits.map(({ max_running: most, starts, per_ms: per, buckets: held }) => [
    most === null ? "" : `at most ${count(most)} at once`,
    starts === null ? "" : `${counted(starts, "start")} in ${duration(per)}`,
    held < buckets ? `(in ${held} of ${buckets} buckets)` : "(each bucket)",
  ].filter(Boolean).join(" ")).join("; ");
}

/** The verdict over all queues. */
export function queuesSay(rows) {
  const troubled = rows.filter(({ level }) => level === "bad" || level === "warn");
  if (!rows.length) return { level: "none", says: "There is no queue yet" };
  if (!troubled.length) return { level: "good", says: "No queue needs a look" };
  const [first] = troubled.toSorted((a, b) => (a.level === "bad" ? 0 : 1) - (b.level === "bad" ? 0 : 1));
  const rest = troubled.length > 1 ? ` And ${counted(troubled.length - 1, "other queue")}.` : "";
  return { level: first.level, says: `Queue ${plain(first.queue)}: ${first.says}.${rest}` };
}

/** What the broker was asked, and when: a note, "" when it is recent. */
export function brokerSays({ asked_ms: asked, problem }, now) {
  const since = asked === null ? "" : `, asked ${duration(now - asked)} ago`;
  if (problem) return `Workers and members are not known: ${plain(problem)}${since}.`;
  return `Workers and members as the broker said ${duration(now - asked)} ago.`;
}

/** A lane in words. */
export function laneSays({ owner, member, lag_ms: behind }) {
  if (owner === null) return { level: "bad", says: "nobody has taken it" };
  if (member === false) return { level: "bad", says: "its owner has left; a take-over is due" };
  if (behind !== null && behind > STALE_MS) return { level: "bad", says: "stands still" };
  return { level: "good", says: member === null ? "moves; members not known" : "moves" };
}

/** What a restoring bucket has been read of: `{done, left}`, done 0 to 1; null where the end is not known. */
export function restored({ timers, timers_end: timersEnd, history, history_end: historyEnd }) {
  if (timersEnd === null || historyEnd === null) return null;
  const all = timersEnd + historyEnd;
  const left = Math.max(0, timersEnd - timers) + Math.max(0, historyEnd - history);
  return { done: all ? Math.max(0, all - left) / all : 1, left };
}

/** A bucket in words. `rate`: records a second it was read at, 0: not known. */
export function bucketSays(bucket, rate) {
  if (bucket.restoring) {
    const read = restored(bucket);
    if (read === null) return { level: "warn", says: "restoring; how far is not known" };
    const eta = rate > 0 ? `, about ${duration((read.left / rate) * 1_000)} to go` : "";
    return { level: "warn", says: `restoring: ${Math.floor(read.done * 100)} %, ${counted(read.left, "record")} left${eta}` };
  }
  if (bucket.applied_before_ms === 0) return { level: "bad", says: "never heard of" };
  if (bucket.lag_ms > STALE_MS) return { level: "bad", says: "stands still" };
  return { level: "good", says: "current" };
}

/** The verdict over the cluster. */
export function clusterSays({ lanes, buckets, dispatchers, slowest_bucket: slowest, staleness_ms: behind }) {
  const stuck = lanes.filter((lane) => laneSays(lane).level === "bad").map(({ lane }) => lane);
  const restoring = buckets.filter((bucket) => bucket.restoring).map(({ bucket }) => bucket);
  const detail = `Bucket ${slowest} is the slowest of ${count(buckets.length)}, ${duration(behind)} behind.`;
  if (stuck.length) return { level: "bad", says: `${stuck.length === 1 ? "Lane" : "Lanes"} ${words(stuck)} ${stuck.length === 1 ? "needs" : "need"} a look`, detail };
  if (restoring.length) return { level: "warn", says: `${counted(restoring.length, "bucket")} restoring`, detail };
  if (behind > STALE_MS) return { level: "bad", says: `Bucket ${slowest} stands still`, detail };
  const who = dispatchers.length ? `${counted(dispatchers.length, "dispatcher")}, ` : "";
  return { level: "good", says: `${who}every bucket moves`, detail };
}

const CHANGES = {
  takeover: ({ instance, lane }) => `${plain(instance ?? "?")} took ${lane === null ? "buckets" : `lane ${lane}`} over`,
  tzdata: ({ before, after }) => `new zone data: ${plain(after ?? "?")}, before ${plain(before ?? "?")}`,
  layout: ({ before, after }) => `new layout of lanes: ${after}, before ${before}`,
  rebuild: ({ reason }) => `this index was made anew: ${plain(reason)}`,
  pause: ({ queue }) => (queue ? `queue ${plain(queue)} was paused` : "everything was paused"),
  resume: ({ queue }) => (queue ? `queue ${plain(queue)} was resumed` : "everything was resumed"),
};

/** A change in words. */
export function changeSays(change) {
  const where = change.buckets.length ? ` (${change.buckets.length === 1 ? "bucket" : "buckets"} ${words(change.buckets, 8)})` : "";
  return `${CHANGES[change.kind]?.(change) ?? change.kind}${where}`;
}
