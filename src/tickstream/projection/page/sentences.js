// What the status means, in plain words. Pure: status objects in, sentences out; no DOM, no clock.

import { count, counted, duration, instant, latency, plain, words } from "./format.js";

const FRESH_MS = 2_000; // an idle bucket reports once a second
export const STALE_MS = 5_000;
export const GRACE_MS = 1_000; // pickup is promised within a second

const STAGES = [
  ["due_to_decided", "due → decided", "the dispatcher gets to it"],
  ["decided_to_fetched", "decided → fetched", "it is committed and a worker fetches it"],
  ["fetched_to_started", "fetched → started", "the worker has a free slot"],
];

/** Up to when the answers are complete, ms UTC. */
export function completeUntil(status) {
  return status.as_of - status.staleness_ms;
}

/** Whether tasks are known to have waited longer than promised. */
export function isLate({ overdue, ...status }) {
  return overdue.oldest_ts !== null && completeUntil(status) - overdue.oldest_ts > GRACE_MS;
}

/** Is anything late? */
export function lateness(status) {
  const { overdue, as_of: now } = status;
  const until = completeUntil(status);
  const stale = status.staleness_ms > STALE_MS;
  const amount = `${overdue.exact ? "" : "at least "}${counted(overdue.count, "task")}`;
  if (isLate(status)) {
    const [queue] = Object.entries(overdue.queues).find(([, { oldest_ts: oldest }]) => oldest === overdue.oldest_ts);
    const since = instant(overdue.oldest_ts, now);
    const waited = duration((stale ? until : now) - overdue.oldest_ts);
    return {
      level: "bad",
      says: `${capital(amount)} late`,
      detail: stale
        ? `The oldest, due at ${since}, had waited ${waited} when this page last heard of everything.`
        : `The oldest has waited ${waited}, since ${since}, in the queue ${plain(queue)}.`,
    };
  }
  if (stale) {
    const since = overdue.count ? ` ${capital(amount)} fell due since and ${overdue.count === 1 ? "is" : "are"} not seen handed out.` : "";
    return {
      level: "unknown",
      says: "Not known",
      detail: nothingHeard(status)
        ? `There is no word from every bucket yet.${since}`
        : `Nothing was late up to ${instant(until, now)}.${since}`,
    };
  }
  return {
    level: "good",
    says: "Nothing is late",
    detail: overdue.count
      ? `${capital(amount)} fell due in the last ${duration(now - overdue.oldest_ts)} and ${overdue.count === 1 ? "is" : "are"} being handed out.`
      : "Every task that is due has been handed out.",
  };
}

/** Is this page true? */
export function truth(status) {
  const { as_of: now, staleness_ms: behind, slowest_bucket: slowest, restoring } = status;
  const unheard = unheardBuckets(status);
  if (unheard.length) {
    return {
      level: "bad",
      says: "Not complete",
      detail: `No dispatcher has ever reported ${buckets(unheard)}; ${unheard.length === 1 ? "its" : "their"} tasks are missing here.`,
    };
  }
  if (restoring.length) {
    return {
      level: "warn",
      says: "Being rebuilt",
      detail: `${capital(buckets(restoring))} ${restoring.length === 1 ? "is" : "are"} being read again from the log; rows may be missing or ahead of each other.`,
    };
  }
  const until = instant(now - behind, now);
  if (behind > FRESH_MS) {
    return {
      level: behind > STALE_MS ? "bad" : "warn",
      says: `${duration(behind)} behind`,
      detail: `Complete only up to ${until}: bucket ${slowest} holds it back. Its dispatcher, or the projection behind this page, stands still.`,
    };
  }
  return {
    level: "good",
    says: `Yes, as of ${duration(behind)} ago`,
    detail: `Everything accepted before ${until} is in it. Bucket ${slowest} is the slowest of ${count(status.buckets.length)}.`,
  };
}

function unheardBuckets(status) {
  return status.buckets.filter((bucket) => bucket.applied_before_ms === 0).map((bucket) => bucket.bucket);
}

function nothingHeard(status) {
  return unheardBuckets(status).length > 0;
}

function buckets(numbers) {
  return `${numbers.length === 1 ? "bucket" : "buckets"} ${words(numbers)}`;
}

/** Where does lateness arise? */
export function where({ lateness: { minutes, stages } }) {
  const total = stages.due_to_started;
  if (!total.count) {
    return { level: "none", says: "Nothing has run", detail: `No task has ended in the last ${minutes} minutes.` };
  }
  const [, name, meaning] = STAGES.reduce((a, b) => ((stages[b[0]].p99_ms ?? 0) > (stages[a[0]].p99_ms ?? 0) ? b : a));
  return {
    level: total.p99_ms > GRACE_MS ? "warn" : "good",
    says: `99 % start within ${latency(total.p99_ms)}`,
    detail: `Of ${counted(total.count, "run")} that ended in the last ${minutes} minutes. Longest is ${name}: until ${meaning}.`,
  };
}

/** Rows for the table of stages. `share`: of the longest p99, 0 to 1. */
export function stageRows({ lateness: { stages } }) {
  const longest = Math.max(1, ...STAGES.map(([key]) => stages[key].p99_ms ?? 0));
  const rows = STAGES.map(([key, name, meaning]) => ({ name, meaning, ...stages[key], share: (stages[key].p99_ms ?? 0) / longest }));
  return [...rows, { name: "due → started", meaning: "the handler starts", ...stages.due_to_started, share: null }];
}

/** How long an occurrence in flight has been so, or when it goes on: "4.0 s", "in 1.2 s". */
export function lasting({ state, decided_ms: decided, started_ms: started, retry_at_ms: retry }, now) {
  if (state === "retrying") return retry > now ? `in ${duration(retry - now)}` : "now";
  const since = state === "running" ? started ?? decided : decided;
  return since === null ? "–" : duration(now - since);
}

/** A bucket's condition in words. */
export function bucketSays({ applied_before_ms: until, lag_ms: behind, restoring }) {
  if (until === 0) return "never heard of";
  if (restoring) return "being rebuilt";
  return behind > STALE_MS ? "stands still" : "current";
}

/** The window's title: what someone with many tabs must see. */
export function title(status) {
  if (isLate(status)) return `${count(status.overdue.count)} late · tickstream`;
  return status.staleness_ms > STALE_MS ? "behind · tickstream" : "tickstream";
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
