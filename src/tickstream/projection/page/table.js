// A table that changes in place: rows keep their element as long as they keep their key, so focus and
// selection survive an update. No request may enter here.

import { make } from "./dom.js";

export class Table {
  /**
   * `columns`: `{title, kind, fill(cell, row, now), hint}`. `kind` is a class for the column ("num", "time", "wide");
   * `fill` writes a cell, also one that it has written before. A title "" is for screen readers `hint`.
   */
  constructor(element, columns, caption) {
    this.columns = columns;
    this.element = element;
    this.body = make("tbody");
    this.rows = new Map();
    if (caption) element.append(make("caption", { className: "unseen" }, caption));
    const heads = columns.map(({ title, kind = "", hint = "" }) =>
      make("th", { scope: "col", className: kind, title: hint }, title || make("span", { className: "unseen" }, hint)),
    );
    element.append(make("thead", {}, make("tr", {}, ...heads)), this.body);
  }

  /** Show exactly these rows, in this order. `key(row)` tells them apart. */
  show(rows, key, now) {
    const before = this.rows;
    this.rows = new Map();
    let place = this.body.firstElementChild;
    for (const row of rows) {
      const id = key(row);
      const line = before.get(id) ?? this.#line();
      before.delete(id);
      this.rows.set(id, line);
      this.columns.forEach((column, n) => column.fill(line.cells[n], row, now));
      if (line === place) place = place.nextElementSibling;
      else this.body.insertBefore(line, place);
    }
    for (const line of before.values()) line.remove();
    this.element.hidden = rows.length === 0;
  }

  #line() {
    const cells = this.columns.map(({ kind = "" }, n) =>
      n === 0 ? make("th", { scope: "row", className: kind }) : make("td", { className: kind }),
    );
    return make("tr", {}, ...cells);
  }
}

/** What tells rows of tasks apart. */
export function rowKey(row) {
  return `${row.occurrence_ts} ${row.task_id}`;
}
