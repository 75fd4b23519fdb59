// A month as whole weeks of days: the first few of each day, and how many more.

import { dayOf, dayText, monday, month, plus, startOf } from "./civil.js";
import { make } from "./dom.js";
import { count, counted } from "./format.js";
import { chip, isLong } from "./occurrences.js";

const SHOWN = 3;

/** The first day that is drawn, and the one behind the last. */
export function bounds(day) {
  const first = monday(month(day));
  let end = first;
  while (end < month(day, 1)) end = plus(end, 7);
  return [first, end];
}

/** `href(one)`: where an occurrence is opened; `dayHref(day)`: where its week is. */
export function monthGrid(all, day, zone, today, href, dayHref) {
  const [first, end] = bounds(day);
  const byDay = new Map();
  for (const one of all) {
    // Those that last several days stand in each.
    const last = dayOf(Math.max(one.start_ms, one.end_ms - 1), zone);
    for (let at = dayOf(one.start_ms, zone); at <= last && at < end; at = plus(at, 1)) {
      if (at >= first) byDay.set(at, [...(byDay.get(at) ?? []), one]);
    }
  }
  const names = Array.from({ length: 7 }, (_, n) => dayText(plus(first, n), { weekday: "short" }));
  const rows = [];
  for (let at = first; at < end; at = plus(at, 7)) {
    rows.push(make("tr", {}, ...Array.from({ length: 7 }, (_, n) => cell(plus(at, n)))));
  }
  const header = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
  return make("table", { className: "month" },
    make("caption", { className: "unseen" }, `What takes place in ${dayText(day, { month: "long", year: "numeric" })}`),
    make("thead", {}, header), make("tbody", {}, ...rows));

  function cell(at) {
    const found = byDay.get(at) ?? [];
    const here = [...found.filter(isLong), ...found.filter((one) => !isLong(one))];
    const met = here.filter((one) => one.conflict_count).length;
    const name = `${dayText(at, { day: "numeric", month: "long" })}: ${here.length ? counted(here.length, "occurrence") : "nothing"}${met ? `, ${count(met)} in conflict` : ""}`;
    const number = make("a", { className: "number", href: dayHref(at), ariaLabel: name, title: name }, dayText(at, { day: "numeric" }));
    const tally = here.length ? make("span", { className: met ? "tally conflict" : "tally", ariaHidden: "true" }, `${met ? "! " : ""}${count(here.length)}`) : "";
    const list = make("ol", {}, ...here.slice(0, SHOWN).map((one) => make("li", {}, chip(one, zone, href(one), startOf(at, zone)))));
    const rest = here.length > SHOWN ? make("a", { className: "rest", href: dayHref(at) }, `${count(here.length - SHOWN)} more`) : "";
    const kind = [at === today ? "today" : "", month(at) === month(day) ? "" : "beside"].filter(Boolean).join(" ");
    return make("td", { className: kind }, number, tally, list, rest);
  }
}
