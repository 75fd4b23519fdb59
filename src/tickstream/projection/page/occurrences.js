// One occurrence of a calendar in words and as an element that opens it. What is drawn where is weeks.js and months.js.

import { clockText, dayOf, dayText } from "./civil.js";
import { make } from "./dom.js";
import { counted, plain, words } from "./format.js";

/** What tells one occurrence from all others. */
export function key(one) {
  return `${one.recurrence_ms} ${one.uid}`;
}

/** What it is called. */
export function title(one) {
  return plain(one.summary || one.uid);
}

/** Whether it is drawn over whole days. */
export function isLong(one) {
  return one.all_day || one.end_ms - one.start_ms >= 86_400_000;
}

/** From when to when, on the clock of `zone`. */
export function when(one, zone) {
  const [first, last] = [dayOf(one.start_ms, zone), dayOf(Math.max(one.start_ms, one.end_ms - 1), zone)];
  const day = (text) => dayText(text, { weekday: "short", day: "numeric", month: "short" }).replaceAll(",", "");
  if (one.all_day) return first === last ? `${day(first)}, all day` : `${day(first)} to ${day(last)}`;
  const end = first === last ? "" : `${day(dayOf(one.end_ms, zone))} `;
  return `${day(first)} ${clockText(one.start_ms, zone)} to ${end}${clockText(one.end_ms, zone)}`;
}

/** What has to be known of it, in words: none, or several. */
export function marks(one) {
  const found = [];
  if (one.conflict_count) found.push(`meets ${words([...new Set(one.conflicts.map((other) => plain(other.uid)))], 2)}`);
  if (one.clock_change === "gap") found.push("clock put forward: that time does not exist");
  if (one.clock_change === "fold") found.push("clock put back: that time comes twice");
  if (one.tentative) found.push("tentative");
  if (!one.blocks) found.push("does not block");
  if (one.changed) found.push("changed by hand");
  return found;
}

/** A link that opens it; its look says what `marks` says, its name does so in words. What began before `since` is going on. */
export function chip(one, zone, href, since = -Infinity) {
  const link = make("a", { className: "chip", href });
  link.dataset.key = key(one);
  const said = [when(one, zone), plain(one.location), ...marks(one)].filter(Boolean).join(", ");
  link.title = `${title(one)}, ${said}`;
  link.classList.toggle("conflict", one.conflict_count > 0);
  link.classList.toggle("tentative", one.tentative);
  link.classList.toggle("open", !one.blocks);
  const signs = [one.conflict_count ? "!" : "", one.clock_change ? "⇄" : ""].filter(Boolean).join(" ");
  if (!isLong(one)) link.append(make("span", { className: "from", ariaHidden: "true" }, one.start_ms < since ? "…" : clockText(one.start_ms, zone)));
  link.append(make("bdi", {}, title(one)));
  if (signs) link.prepend(make("strong", { className: "sign", ariaHidden: "true" }, signs));
  link.append(make("span", { className: "unseen" }, `, ${said}`));
  return link;
}

/** "2 of 12 occurrences want time that is taken": a verdict. */
export function verdict(all, shown) {
  if (!all.length) return { level: "none", says: `Nothing takes place in this ${shown}` };
  const met = all.filter((one) => one.conflict_count).length;
  const detail = `${counted(all.length, "occurrence")} in this ${shown}.`;
  if (!met) return { level: "good", says: "No two want the same time", detail };
  return { level: "warn", says: `${counted(met, "occurrence")} ${met === 1 ? "wants" : "want"} time that is taken`, detail };
}
