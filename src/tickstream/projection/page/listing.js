// The view of a list: rows of a window and its filters. More are fetched as it is scrolled; what is shown
// stands still while it is read.

import { tasks } from "./api.js";
import * as cells from "./cells.js";
import { byId, setText, show } from "./dom.js";
import { Filters } from "./filters.js";
import * as format from "./format.js";
import { LongTable } from "./long.js";
import { rowKey } from "./table.js";

const FIRST = 200; // rows of the first page: soon there
const PAGE = 1_000; // of the others: the most that the API gives
const MOST = 100_000; // rows kept at once; then one goes on after them
const FILTERS = ["state", "queue", "handler", "label", "calendar", "id_prefix", "error", "error_like", "start", "end"];

export class Listing {
  constructor(root) {
    this.root = root;
    this.note = root.querySelector(".note");
    this.more = byId("more");
    this.filters = new Filters(byId("filters"));
    this.fetching = null; // the list that a page is under way for
    this.table = new LongTable(byId("listing-rows"), [
      cells.time("Due", (row) => row.occurrence_ts),
      cells.state(),
      cells.plain("Late", (row) => (row.started_ms === null ? "–" : format.latency(row.started_ms - row.occurrence_ts)), "num tight", "due → started"),
      cells.task(),
      cells.text("Queue", (row) => row.queue, "wide"),
      cells.text("Handler", (row) => row.handler, "wide"),
      cells.text("Error", (row) => row.error, "error wide"),
    ], "Tasks by the time they are due", { key: rowKey, onNearEnd: () => this.failed || this.#next() });
    this.more.addEventListener("click", () => this.#goOn());
  }

  /** Show the first page of what `given` (URLSearchParams) asks for. */
  open(given) {
    const query = {};
    for (const name of FILTERS) if (given.has(name)) query[name] = given.getAll(name);
    Object.assign(this, { query, rows: [], before: 0, cursor: null, visited: 0, failed: false });
    this.table.show(this.rows, true, 0);
    setText(byId("listing-h"), heading(given));
    this.filters.show(given);
    return this.#next();
  }

  /** Fetch the next page, unless that is under way. */
  async #next() {
    const query = this.query;
    if (this.fetching === query) return;
    this.fetching = query;
    setText(this.note, "Loading…");
    show(this.more, false);
    try {
      const limit = Math.min(this.cursor === null ? FIRST : PAGE, MOST - this.rows.length);
      const page = await tasks({ ...query, limit, cursor: this.cursor });
      if (query !== this.query) return; // another list was opened meanwhile
      this.rows.push(...page.rows);
      Object.assign(this, { cursor: page.cursor, visited: this.visited + page.visited, failed: false, fetching: null });
      this.#show(page.as_of);
    } catch (error) {
      if (query !== this.query) return;
      Object.assign(this, { failed: true, fetching: null });
      setText(this.note, error.message);
      setText(this.more, "Try again");
      show(this.more, true);
    }
  }

  #show(now) {
    const full = this.cursor !== null && this.rows.length >= MOST;
    setText(this.note, this.#says(full));
    setText(this.more, "Go on after these");
    show(this.more, full);
    // It may ask for the next page at once, where this one does not fill the screen.
    this.table.show(this.rows, full || this.cursor === null, now);
  }

  #goOn() {
    if (!this.failed) {
      this.before += this.rows.length;
      this.rows = [];
    }
    return this.#next();
  }

  #says(full) {
    const seen = `${format.counted(this.before + this.rows.length, "row")} found, ${format.count(this.visited)} looked at`;
    if (full) return `${seen}; there is more than is kept here at once.`;
    if (this.cursor !== null) return `${seen}; there is more.`;
    return this.before + this.rows.length ? `${seen}; that is all.` : "Nothing matches.";
  }
}

function heading(given) {
  const parts = [];
  const states = given.getAll("state");
  if (states.length) parts.push(format.words(states));
  if (given.has("queue")) parts.push(`in queue ${format.plain(given.get("queue"))}`);
  if (given.has("handler")) parts.push(`for handler ${format.plain(given.get("handler"))}`);
  if (given.has("label")) parts.push(`with ${format.plain(given.getAll("label").join(", "))}`);
  if (given.has("id_prefix")) parts.push(`whose id begins with “${format.plain(given.get("id_prefix"))}”`);
  if (given.has("calendar")) parts.push(`of calendar ${format.plain(given.get("calendar"))}`);
  if (given.has("error")) parts.push(`whose error contains “${format.plain(given.get("error"))}”`);
  if (given.has("error_like")) parts.push(`that failed like “${format.plain(given.get("error_like"))}”`);
  const now = Date.now();
  if (given.has("start")) parts.push(`due from ${format.instant(Number(given.get("start")), now)}`);
  if (given.has("end")) parts.push(`due before ${format.instant(Number(given.get("end")), now)}`);
  return parts.length ? `Tasks ${parts.join(", ")}` : "All tasks";
}
