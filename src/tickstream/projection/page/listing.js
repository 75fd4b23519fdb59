// The view of a list: rows of a window and its filters, page by page. It stands still while it is read.

import { tasks } from "./api.js";
import * as cells from "./cells.js";
import { byId, setText, show } from "./dom.js";
import { Filters } from "./filters.js";
import * as format from "./format.js";
import { rowKey, Table } from "./table.js";

const PAGE = 200;
const FILTERS = ["state", "queue", "handler", "label", "calendar", "id_prefix", "error", "error_like", "start", "end"];

export class Listing {
  constructor(root) {
    this.root = root;
    this.note = root.querySelector(".note");
    this.more = byId("more");
    this.filters = new Filters(byId("filters"));
    this.table = new Table(root.querySelector("table"), [
      cells.time("Due", (row) => row.occurrence_ts),
      cells.state(),
      cells.plain("Late", (row) => (row.started_ms === null ? "–" : format.latency(row.started_ms - row.occurrence_ts)), "num tight", "due → started"),
      cells.task(),
      cells.text("Queue", (row) => row.queue, "wide"),
      cells.text("Handler", (row) => row.handler, "wide"),
      cells.text("Error", (row) => row.error, "error wide"),
    ], "Tasks by the time they are due");
    this.more.addEventListener("click", () => this.#next());
  }

  /** Show the first page of what `given` (URLSearchParams) asks for. */
  open(given) {
    const query = {};
    for (const name of FILTERS) if (given.has(name)) query[name] = given.getAll(name);
    Object.assign(this, { query, rows: [], cursor: null, visited: 0 });
    this.table.show([], rowKey, 0);
    setText(byId("listing-h"), heading(given));
    this.filters.show(given);
    return this.#next();
  }

  async #next() {
    const query = this.query;
    setText(this.note, "Loading…");
    this.more.disabled = true;
    try {
      const page = await tasks({ ...query, limit: PAGE, cursor: this.cursor });
      if (query !== this.query) return; // another list was opened meanwhile
      this.rows.push(...page.rows);
      this.cursor = page.cursor;
      this.visited += page.visited;
      this.table.show(this.rows, rowKey, page.as_of);
      setText(this.note, this.#says());
    } catch (error) {
      if (query === this.query) setText(this.note, error.message);
    }
    this.more.disabled = false;
    show(this.more, this.cursor !== null);
  }

  #says() {
    const seen = `${format.counted(this.rows.length, "row")} found, ${format.count(this.visited)} looked at`;
    if (this.cursor !== null) return `${seen}; there is more.`;
    return this.rows.length ? `${seen}; that is all.` : "Nothing matches.";
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
