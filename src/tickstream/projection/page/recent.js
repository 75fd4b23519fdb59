// The rows that finished last, by the time they were due: the API lists from the oldest on, so a window is
// looked for that holds about as many rows as are wanted. No DOM.

import { tasks } from "./api.js";
import { ENDED } from "./states.js";

const MOST = 200;
const ENOUGH = 25;
const LONGEST_MS = 24 * 3_600_000;
const TRIES = 6;

export class Recent {
  constructor() {
    this.spanMs = 60_000; // fits mostly the next time too
  }

  /**
   * `{rows, spanMs, whole}`: rows due in the last `spanMs` before `now`, the last ended first. Not `whole`: only
   * the first of them, since no window with fewer was found (thousands due at one instant).
   */
  async fetch(now) {
    let few = 0; // the longest window known to hold too few rows, the shortest to hold too many
    let many = Infinity;
    let fitting = null;
    let crowded = null;
    let span = this.spanMs;
    for (let tried = 0; tried < TRIES && span !== few && span !== many; tried++) {
      const page = await tasks({ state: ENDED, start: now - span, end: now, limit: MOST });
      if (page.cursor !== null) {
        many = span;
        crowded = { rows: page.rows, spanMs: span, whole: false };
      } else {
        few = span;
        fitting = { rows: page.rows, spanMs: span, whole: true };
        if (page.rows.length >= ENOUGH || span === LONGEST_MS) break;
      }
      span = between(few, many);
    }
    const found = crowded && (fitting?.rows.length ?? 0) < ENOUGH ? crowded : fitting;
    this.spanMs = found.spanMs;
    found.rows.sort((a, b) => (b.ended_ms ?? 0) - (a.ended_ms ?? 0));
    return found;
  }
}

function between(few, many) {
  if (many === Infinity) return Math.min(LONGEST_MS, few * 4);
  return few === 0 ? Math.ceil(many / 4) : Math.round(Math.sqrt(few * many));
}
