// Days on the clock of a zone: which instants they begin at, and what the clock shows. No DOM may enter here.
// A day is text, "2026-12-07".

const DAY_MS = 86_400_000;
const clocks = new Map();

/** Whether the browser knows the zone: its data may be older than the server's. */
export function known(zone) {
  try {
    clock(zone);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function clock(zone) {
  if (!clocks.has(zone)) {
    const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
    clocks.set(zone, new Intl.DateTimeFormat("en-GB", { ...parts, hourCycle: "h23", calendar: "iso8601", timeZone: zone }));
  }
  return clocks.get(zone);
}

/** What the clock shows, as if it were UTC: ms. */
function wall(ms, zone) {
  const shown = Object.fromEntries(clock(zone).formatToParts(ms).map((part) => [part.type, Number(part.value)]));
  return Date.UTC(shown.year, shown.month - 1, shown.day, shown.hour, shown.minute, shown.second);
}

/** The day that the clock shows at an instant. */
export function dayOf(ms, zone) {
  return new Date(wall(ms, zone)).toISOString().slice(0, 10);
}

/** Minutes since midnight that the clock shows at an instant. */
export function minuteOf(ms, zone) {
  return (wall(ms, zone) % DAY_MS) / 60_000;
}

/** The instant at which a day begins: midnight, or where the clock skips that, the end of the gap. */
export function startOf(day, zone) {
  const wanted = Date.parse(`${day}T00:00:00Z`);
  // An offset lies within a day; the second look is under the offset in force there.
  let found = wanted - (wall(wanted, zone) - wanted);
  found = wanted - (wall(found, zone) - found);
  return dayOf(found, zone) < day ? found + (wanted - wall(found, zone)) : found;
}

/** The day so many days later. */
export function plus(day, days) {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

/** The Monday of the day's week. */
export function monday(day) {
  return plus(day, -((new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7));
}

/** The first day of the day's month, so many months later. */
export function month(day, months = 0) {
  const [year, number] = day.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + months, 1)).toISOString().slice(0, 10);
}

/** Whether text from the address is a day that there is. */
export function isDay(text) {
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`)) && plus(text, 0) === text;
}

/** A day in words, by Intl's names for its parts. */
export function dayText(day, parts) {
  return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone: "UTC" }).format(Date.parse(`${day}T00:00:00Z`));
}

/** Hour and minute that the clock of `zone` shows. */
export function clockText(ms, zone) {
  return new Date(wall(ms, zone)).toISOString().slice(11, 16);
}
