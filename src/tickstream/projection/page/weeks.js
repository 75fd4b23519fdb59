// A week as seven days side by side: what lasts days above, the rest by its time, side by side where it overlaps.

import { clockText, dayOf, dayText, minuteOf, plus, startOf } from "./civil.js";
import { make } from "./dom.js";
import { count } from "./format.js";
import { chip, isLong } from "./occurrences.js";

const HOUR_PX = [28, 44]; // as the day is long
const DAY_PX = 560;
const LEAST_PX = 18;
const TALL_PX = 38; // room for a second line
const WORKDAY = [8, 18]; // hours that are drawn whatever takes place
const MOST_A_DAY = 200;

/** The week that begins with that Monday. `href(one)`: where an occurrence is opened. */
export function week(all, monday, zone, today, href) {
  const days = Array.from({ length: 7 }, (_, n) => plus(monday, n));
  const [from, to] = hours(all, days, zone);
  const scale = make("ol", { className: "scale", ariaHidden: "true" });
  for (let hour = from; hour < to; hour++) scale.append(make("li", {}, `${String(hour).padStart(2, "0")}:00`));
  const px = Math.max(HOUR_PX[0], Math.min(HOUR_PX[1], Math.floor(DAY_PX / (to - from))));
  const columns = days.map((day) => column(all, day, zone, day === today, { from, to, px }, href));
  const root = make("div", { className: "week" }, make("div", { className: "gutter" }, scale), ...columns);
  root.style.setProperty("--hour", `${px}px`);
  root.style.setProperty("--hours", to - from);
  return root;
}

/** The hours that have to be drawn. */
function hours(all, days, zone) {
  let [from, to] = WORKDAY;
  for (const one of all.filter((occurrence) => !isLong(occurrence))) {
    if (days.includes(dayOf(one.start_ms, zone))) from = Math.min(from, Math.floor(minuteOf(one.start_ms, zone) / 60));
    const last = dayOf(Math.max(one.start_ms, one.end_ms - 1), zone);
    if (last !== dayOf(one.start_ms, zone)) [from, to] = [0, 24];
    else to = Math.max(to, Math.ceil((minuteOf(Math.max(one.start_ms, one.end_ms - 1), zone) + 1) / 60));
  }
  return [from, Math.min(24, to)];
}

function column(all, day, zone, isToday, { from, to, px }, href) {
  const [start, end] = [startOf(day, zone), startOf(plus(day, 1), zone)];
  const here = all.filter((one) => one.start_ms < end && (one.end_ms > start || one.start_ms >= start));
  const heading = make("h4", {},
    make("span", { className: "weekday" }, dayText(day, { weekday: "short" })), " ",
    make("span", { className: "number" }, dayText(day, { day: "numeric" })),
    make("span", { className: "unseen" }, ` ${dayText(day, { month: "long" })}${isToday ? ", today" : ""}, ${here.length ? count(here.length) : "nothing"}`),
  );
  const long = make("ol", { className: "long" }, ...here.filter(isLong).map((one) => make("li", {}, chip(one, zone, href(one)))));
  const timed = make("ol", { className: "timed" });
  const [shown, rest] = [here.filter((one) => !isLong(one)).slice(0, MOST_A_DAY), here.length - MOST_A_DAY];
  for (const { one, lane, lanes } of sideBySide(shown, px)) {
    const link = chip(one, zone, href(one), start);
    const top = one.start_ms < start ? 0 : minuteOf(one.start_ms, zone);
    const length = (Math.min(one.end_ms, end) - Math.max(one.start_ms, start)) / 60_000;
    const item = make("li", {}, link);
    const height = Math.max(LEAST_PX, Math.min(length, to * 60 - top) * (px / 60));
    item.style.insetBlockStart = `${(top / 60 - from) * px}px`;
    item.style.blockSize = `${height}px`;
    item.style.insetInlineStart = `${(lane / lanes) * 100}%`;
    item.style.inlineSize = `${100 / lanes}%`;
    link.classList.toggle("narrow", lanes > 1);
    if (height >= TALL_PX) {
      link.classList.add("tall");
      link.append(make("span", { className: "until", ariaHidden: "true" }, `to ${clockText(one.end_ms, zone)}`));
    }
    timed.append(item);
  }
  const section = make("section", { className: isToday ? "day today" : "day" }, heading, long, timed);
  if (rest > 0) section.append(make("p", { className: "aside" }, `and ${count(rest)} more`));
  return section;
}

/** Lanes for what overlaps: each group of occurrences that hang together shares the width. */
function sideBySide(sorted, px) {
  const placed = [];
  let [group, ends, until] = [[], [], -Infinity];
  const close = () => {
    for (const one of group) one.lanes = ends.length;
    [group, ends] = [[], []];
  };
  for (const one of sorted) {
    if (one.start_ms >= until) close();
    let lane = ends.findIndex((end) => end <= one.start_ms);
    if (lane < 0) lane = ends.push(0) - 1;
    // What is too short to be seen is drawn longer, and must not lie under its successor.
    ends[lane] = Math.max(one.end_ms, one.start_ms + (LEAST_PX / px) * 3_600_000);
    until = Math.max(until, ends[lane]);
    const place = { one, lane, lanes: 1 };
    group.push(place);
    placed.push(place);
  }
  close();
  return placed;
}
