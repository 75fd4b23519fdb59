// Columns that several tables share: tasks, instants, states, durations.

import { make, setText } from "./dom.js";
import * as format from "./format.js";

const CLOCK_LENGTH = 8; // "13:00:30"; longer ones bear a date, and their column must be wider

/** A cell of text from outside. `get(row)`; an empty one reads "–". */
export function text(title, get, kind = "") {
  return {
    title,
    kind: `text ${kind}`,
    fill(cell, row, now) {
      const raw = get(row, now) ?? "";
      const said = format.plain(raw);
      if (!cell.firstChild) cell.append(make("bdi"));
      setText(cell.firstChild, said || "–");
      if (cell.title !== said) cell.title = said;
    },
  };
}

/** A cell that this page words itself. */
export function plain(title, get, kind = "", hint = "") {
  return { title, kind, hint, fill: (cell, row, now) => setText(cell, get(row, now)) };
}

/** A whole number, "" for 0 where nothing is meant by it. */
export function number(title, get, kind = "", hint = "") {
  return plain(title, (row) => format.count(get(row)), `num ${kind}`, hint);
}

/** An instant in the viewer's zone, UTC in its title. `get(row)` in ms, or null. */
export function time(title, get, kind = "") {
  return {
    title,
    kind: `time ${kind}`,
    fill(cell, row, now) {
      const ms = get(row);
      if (!cell.firstChild) cell.append(make("time"));
      setTime(cell.firstChild, ms, now);
    },
  };
}

/** Put an instant into a <time>. */
export function setTime(node, ms, now) {
  if (ms === null) {
    setText(node, "–");
    return;
  }
  const exact = format.utc(ms);
  const said = format.instant(ms, now);
  if (node.dateTime !== exact) {
    node.dateTime = exact;
    node.title = exact;
  }
  node.classList.toggle("dated", said.length > CLOCK_LENGTH);
  setText(node, said);
}

/** A link to the task. */
export function task(get = (row) => row.task_id) {
  return {
    title: "Task",
    kind: "task",
    fill(cell, row) {
      const id = get(row);
      if (!cell.firstChild) cell.append(make("a", {}, make("bdi")));
      const link = cell.firstChild;
      const href = taskHref(id);
      if (link.getAttribute("href") !== href) link.href = href;
      const said = format.plain(id);
      if (link.title !== said) link.title = said;
      setText(link.firstChild, said);
    },
  };
}

/** Where a task is shown on this page. */
export function taskHref(id) {
  return `#/task/${encodeURIComponent(id)}`;
}

/** The state in a word, coloured too. `of(row)` where it is not the row's own. */
export function state(of = (row) => row.state) {
  return {
    title: "State",
    kind: "state",
    fill(cell, row, now) {
      const said = of(row, now);
      if (cell.dataset.state !== said) cell.dataset.state = said;
      setText(cell, said);
    },
  };
}
