// The rows that finished last, by the time they were due: the API lists from the oldest on, so the window
// is fitted to hold about as many rows as are wanted. No DOM.

import { tasks } from "./api.js";

const STATES = ["succeeded", "dead", "cancelled"];
const MOST = 200;
const ENOUGH = 25;
const SHORTEST_MS = 100;
const LONGEST_MS = 24 * 3_600_000;
const FACTOR = 4; // MOST / FACTOR > ENOUGH, so a fitted window stays fitted

export class Recent {
  constructor() {
    this.spanMs = 60_000;
  }

  /** `{rows, spanMs}`: rows due in the last `spanMs` before `now`, the last ended first. */
  async fetch(now) {
    let page = await this.#page(now);
    while (page.cursor !== null && this.spanMs > SHORTEST_MS) {
      this.spanMs = Math.max(SHORTEST_MS, this.spanMs / FACTOR);
      page = await this.#page(now);
    }
    while (page.cursor === null && page.rows.length < ENOUGH && this.spanMs < LONGEST_MS) {
      const wider = Math.min(LONGEST_MS, this.spanMs * FACTOR);
      const spanMs = this.spanMs;
      this.spanMs = wider;
      const more = await this.#page(now);
      if (more.cursor !== null) {
        this.spanMs = spanMs; // a burst at its far end: keep what is whole
        break;
      }
      page = more;
    }
    return { rows: page.rows.sort((a, b) => (b.ended_ms ?? 0) - (a.ended_ms ?? 0)), spanMs: this.spanMs };
  }

  #page(now) {
    return tasks({ state: STATES, start: Math.round(now - this.spanMs), end: now, limit: MOST });
  }
}
