// A table of which only the rows in sight, and some beyond, are in the document: for lists of a hundred thousand.
// No request may enter here.

import { Table } from "./table.js";

const BEYOND = 20; // rows above and below those in sight: what a fast finger reaches before the next frame
const AHEAD = 500; // rows left below, from which on more are asked for
const HEAD = 1; // rows of the head; a reader of the screen counts them too

export class LongTable {
  /** `view` scrolls, and holds a box with the table. `key` as for Table; `onNearEnd()`: what is there is soon over. */
  constructor(view, columns, caption, { key, onNearEnd }) {
    Object.assign(this, { view, key, onNearEnd, rows: [], now: 0, complete: true, frame: 0 });
    this.box = view.firstElementChild;
    this.element = view.querySelector("table");
    this.table = new Table(this.element, columns, caption);
    this.element.tHead.rows[0].ariaRowIndex = HEAD;
    view.addEventListener("scroll", () => this.#soon(), { passive: true });
    view.addEventListener("keydown", (event) => this.#walk(event));
    new ResizeObserver(() => this.#soon()).observe(view);
  }

  /** Show these rows; `complete`: no more will follow. */
  show(rows, complete, now) {
    const other = rows !== this.rows;
    Object.assign(this, { rows, complete, now });
    if (other) this.view.scrollTop = 0;
    this.#draw();
  }

  #soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const { rows, table, view } = this;
    const height = this.#rowHeight();
    const inSight = Math.floor(view.scrollTop / height);
    const first = Math.max(0, Math.min(inSight, rows.length) - BEYOND);
    const end = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + BEYOND);
    const focused = view.contains(document.activeElement) ? document.activeElement : null;
    table.show(rows.slice(first, end), this.key, this.now);
    this.box.style.paddingBlock = `${first * height}px ${(rows.length - end) * height}px`;
    this.element.ariaRowCount = this.complete ? rows.length + HEAD : -1;
    let at = first;
    for (const line of table.body.rows) {
      line.ariaRowIndex = at + HEAD + 1;
      // Who tabs into the table comes to what is in sight, not to what waits above it.
      for (const link of line.querySelectorAll("a")) link.tabIndex = at < inSight ? -1 : 0;
      at += 1;
    }
    // A row that went out of the document takes the focus with it; the next key must not start at the top of the page.
    if (focused && !focused.isConnected) view.focus({ preventScroll: true });
    if (!this.complete && rows.length - end < AHEAD) this.onNearEnd();
  }

  /** Up and down go from row to row, also to those that are not in the document yet. */
  #walk(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest("tbody tr");
    if (!by || !line) return; // the view scrolls by itself
    const at = Number(line.ariaRowIndex) - HEAD - 1 + by;
    if (at < 0 || at >= this.rows.length) return;
    event.preventDefault();
    const height = this.#rowHeight();
    const space = this.view.clientHeight - this.element.tHead.offsetHeight;
    const top = this.view.scrollTop;
    this.view.scrollTop = Math.min(at * height, Math.max(top, (at + 1) * height - space));
    this.#draw();
    const next = [...this.table.body.rows].find((row) => Number(row.ariaRowIndex) === at + HEAD + 1);
    next.querySelector("a").focus({ preventScroll: true });
  }

  /** Px. All rows are as high as the style sheet says; before there is one, that. */
  #rowHeight() {
    const { body } = this.table;
    return body.offsetHeight / body.rows.length || 28;
  }
}
