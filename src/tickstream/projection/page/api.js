// Requests to the dashboard's own API. No DOM may enter here.

const TOKEN = "tickstream-token";
const PATIENCE_MS = 10_000;

/** An answer that is an error: a problem object (RFC 9457), or what stands in for one. */
export class Problem extends Error {
  constructor({ status = 0, title, detail }, options) {
    super(detail ? `${title}: ${detail}` : title, options);
    this.status = status;
    this.title = title;
  }
}

/** Remember the bearer token for this tab. */
export function setToken(text) {
  sessionStorage.setItem(TOKEN, text);
}

/** GET a path of the API; resolves to the response. Throws Problem. */
export async function request(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(path, { headers, cache: "no-store", ...options });
  } catch (error) {
    // Browsers word it differently ("Failed to fetch", "Load failed"), and none says why.
    throw new Problem({ title: "the dashboard does not answer" }, { cause: error });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  const title = said.title ?? `The server answered ${response.status}`;
  return new Problem({ status: response.status, title, detail: said.detail });
}

let aheadMs = null; // the server's clock less this machine's, by the last answer

async function json(path) {
  const answer = await (await request(path, { signal: AbortSignal.timeout(PATIENCE_MS) })).json();
  aheadMs = answer.as_of - Date.now();
  return answer;
}

/** The present by the server's clock, ms UTC: a viewer's own may be wrong by hours. */
export async function serverNow() {
  if (aheadMs === null) await json("api/status");
  return Date.now() + aheadMs;
}

/** A page of rows: /api/tasks. `query`: names and values, lists repeated, empty ones left out. */
export function tasks(query) {
  return json(`api/tasks?${queryString(query)}`);
}

/** One task with its occurrences: /api/tasks/{id}. */
export async function task(id) {
  return json(`api/tasks/${encodeURIComponent(id)}`);
}

/** What was given up on, by handler and error: /api/failures. */
export function failures(query) {
  return json(`api/failures?${queryString(query)}`);
}

/** Each queue: /api/queues. */
export function queues() {
  return json("api/queues");
}

/** What is out, with its lease: /api/running. */
export function running(query) {
  return json(`api/running?${queryString(query)}`);
}

/** Buckets, lanes, members: /api/cluster. */
export function cluster() {
  return json("api/cluster");
}

/** What became different, latest first: /api/changes. */
export function changes(query) {
  return json(`api/changes?${queryString(query)}`);
}

/** Rows per period and state: /api/counts. */
export function counts(query) {
  return json(`api/counts?${queryString(query)}`);
}

/** The load to come: /api/forecast. */
export function forecast(query) {
  return json(`api/forecast?${queryString(query)}`);
}

/** Percentiles over time: /api/lateness. */
export function lateness(query) {
  return json(`api/lateness?${queryString(query)}`);
}

/** Calendars that have events: /api/calendars. */
export function calendars(query) {
  return json(`api/calendars?${queryString(query)}`);
}

/** What takes place in a calendar: /api/events. */
export function calendarEvents(query) {
  return json(`api/events?${queryString(query)}`);
}

/** Where a calendar's feed lies: /api/feed. */
export async function feedPath(query) {
  return (await request(`api/feed?${queryString(query)}`, { signal: AbortSignal.timeout(PATIENCE_MS) })).json();
}

/** The query string of an object. */
export function queryString(query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") given.append(name, one);
    }
  }
  return given.toString();
}
