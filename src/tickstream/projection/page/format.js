// Numbers, durations and instants as text. No DOM and no request may enter here.

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOURS = 60 * MINUTE;
const DAYS = 24 * HOURS;
const LAST_DATE_MS = 8.64e15; // ECMAScript's last instant; the API's instants go beyond

/** A whole number with its thousands set apart. */
export function count(n) {
  return NUMBER.format(n);
}

/** "1 task", "2,000 tasks". */
export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A length of time in ms, in the two units that matter: "38 ms", "0.8 s", "4 min 12 s", "3 d 4 h". */
export function duration(ms) {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 100) return `${whole} ms`;
  if (whole < 9_950) return `${(whole / SECOND).toFixed(1)} s`;
  if (whole < MINUTE - SECOND / 2) return `${Math.round(whole / SECOND)} s`;
  if (whole < HOURS) return pair(whole, MINUTE, "min", SECOND, "s");
  if (whole < DAYS) return pair(whole, HOURS, "h", MINUTE, "min");
  return pair(whole, DAYS, "d", HOURS, "h");
}

function pair(ms, big, bigName, small, smallName) {
  const units = Math.round(ms / small);
  const perBig = big / small;
  const rest = units % perBig;
  const first = `${count(Math.floor(units / perBig))} ${bigName}`;
  return rest ? `${first} ${rest} ${smallName}` : first;
}

/** Latencies, whole up to 10 s: "1,043 ms". */
export function latency(ms) {
  return ms === null ? "–" : ms < 10_000 ? `${count(ms)} ms` : duration(ms);
}

/** An instant (ms UTC) in the viewer's zone; the day is left out where it is that of `now`. */
export function instant(ms, now) {
  if (Math.abs(ms) > LAST_DATE_MS) return "beyond all dates";
  const at = new Date(ms);
  const today = new Date(now);
  const time = CLOCK.format(at);
  if (at.toDateString() === today.toDateString()) return time;
  return `${(at.getFullYear() === today.getFullYear() ? DAY : YEAR).format(at)} ${time}`;
}

/** An instant on the clock of `zone`, with its day: "Wed 11 Mar 09:00:00"; null where the browser does not know it. */
export function wall(ms, zone) {
  if (Math.abs(ms) > LAST_DATE_MS) return null;
  try {
    const parts = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" };
    return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone: zone }).format(ms).replaceAll(",", "");
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Hour and minute in the viewer's zone. */
export function minute(ms) {
  return HOUR.format(ms);
}

const DAY_MINUTE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** Hour and minute in the viewer's zone, with the day where it is not that of `now`. */
export function dayMinute(ms, now) {
  return new Date(ms).toDateString() === new Date(now).toDateString() ? HOUR.format(ms) : DAY_MINUTE.format(ms);
}

/** An instant as ISO 8601 in UTC, to the millisecond. */
export function utc(ms) {
  return Math.abs(ms) > LAST_DATE_MS ? `${ms} ms` : new Date(ms).toISOString();
}

/** The viewer's zone by name, with its offset: "Europe/Berlin (GMT+1)". */
export function zone() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "shortOffset" }).formatToParts();
  return `${name} (${parts.find((part) => part.type === "timeZoneName").value})`;
}

// Direction marks and overrides: they would let an id pass for another one.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Text from outside with its invisible direction controls spelled out. */
export function plain(text) {
  return text.replace(BIDI, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** A list in words, cut after `most`: "3, 5 and 12 more". */
export function words(items, most = 4) {
  const rest = items.length - most;
  if (rest > 0) return `${items.slice(0, most).join(", ")} and ${count(rest)} more`;
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
