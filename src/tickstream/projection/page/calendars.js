// The view of calendars: which there are, and one of them by week or month, on its own clock or the viewer's.
// The address says what is shown; buttons and keys change the address.

import { calendarEvents, calendars, feedPath, queryString, serverNow } from "./api.js";
import * as cells from "./cells.js";
import { dayOf, dayText, isDay, known, monday, month, plus, startOf } from "./civil.js";
import { byId, make, setText, setVerdict, show } from "./dom.js";
import { count, counted, plain } from "./format.js";
import { bounds, monthGrid } from "./months.js";
import { Occasion } from "./occasion.js";
import { key, verdict } from "./occurrences.js";
import { Panel } from "./panel.js";
import { Table } from "./table.js";
import { week } from "./weeks.js";

const EVERY_MS = 10_000;
const MOST_PAGES = 5;
const VIEWS = ["week", "month"];
const KEYS = { j: "later", k: "earlier", t: "today" };

export class CalendarsView extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.table = new Table(byId("calendar-table"), [
      { title: "Calendar", kind: "task", fill: fillName },
      cells.number("Events", (row) => row.events),
      cells.text("Zone", (row) => row.zone, "zone"),
      cells.time("Changed", (row) => row.changed_ms, "wide"),
    ], "Calendars that have events");
    this.occasion = new Occasion();
    this.grid = byId("calendar-grid");
    for (const step of Object.values(KEYS)) byId(step).addEventListener("click", () => this.#step(step));
    byId("calendar-view").addEventListener("change", () => this.#go({ view: byId("calendar-view").value }));
    byId("calendar-zone").addEventListener("change", () => this.#go({ zone: byId("calendar-zone").value }));
    this.chosen = false; // an occurrence was just now, by mouse or key: then the focus goes to what is said of it
    this.grid.addEventListener("click", (event) => { this.chosen = event.target.closest(".chip") !== null; });
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Show the calendar with this id ("": all of them) as the address wants it. */
  open(id = "", given = new URLSearchParams()) {
    const changed = id !== this.id;
    this.id = id;
    this.given = {
      view: VIEWS.includes(given.get("view")) ? given.get("view") : "week",
      on: isDay(given.get("on") ?? "") ? given.get("on") : "",
      zone: given.get("zone") === "yours" ? "yours" : "",
      event: given.get("event") ?? "",
    };
    if (changed) {
      this.drawn = this.opened = "";
      this.answered = false;
      this.grid.replaceChildren();
      setVerdict(this.root, { level: "none", says: "Loading…" });
      byId("calendars-h").replaceChildren(...(id ? ["Calendar ", make("bdi", { className: "id" }, plain(id))] : ["Calendars"]));
      show(this.occasion.root, false);
      this.#subscribe(id);
    }
    show(byId("calendar"), id !== "");
    show(byId("calendars-back"), id !== "");
    show(byId("calendar-table"), id === "");
    byId("calendar-view").value = this.given.view;
    byId("calendar-zone").value = this.given.zone;
    return super.open();
  }

  ask() {
    return this.id ? this.#one(this.id, this.given) : this.#all();
  }

  async #all() {
    const answer = await calendars({ limit: 1_000 });
    if (this.id !== "") return "";
    const rows = answer.calendars;
    setVerdict(this.root, rows.length
      ? { level: "none", says: counted(rows.length, "calendar") }
      : { level: "none", says: "There is no calendar yet", detail: "tickstream calendar import FILE.ics --calendar room-7 --handler NAME makes one." });
    this.table.show(rows, (row) => row.calendar, answer.as_of);
    return answer.cursor ? "There are more: name one in the address, as #/calendars/room-7." : "";
  }

  async #one(id, given) {
    const now = await serverNow();
    // Which zone the calendar has is known once it was asked; the first time a short look tells.
    this.zones ??= new Map();
    if (!this.zones.has(id)) this.zones.set(id, (await calendarEvents({ calendar: id, limit: 1 })).zone);
    const own = this.zones.get(id) ?? "UTC";
    const yours = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const zone = given.zone === "yours" || !known(own) ? yours : own;
    const today = dayOf(now, zone);
    const on = given.on || today;
    const [first, end] = given.view === "month" ? bounds(on) : [monday(on), plus(monday(on), 7)];
    const found = await everything({ calendar: id, start: startOf(first, zone), end: startOf(end, zone) });
    if (id !== this.id || given !== this.given) return "";
    this.zones.set(id, found.zone);
    Object.assign(this, { on, today, clocks: [...new Set([zone, own, yours])].filter(known), now, events: found.events });
    setText(byId("calendar-zone").options[0], `the calendar's (${plain(own)})`);
    setText(byId("calendar-zone").options[1], `yours (${yours})`);
    this.#draw(first, zone);
    await this.#open();
    return says(found, own);
  }

  #draw(first, zone) {
    const { view } = this.given;
    const drawn = JSON.stringify([this.events, view, first, zone, this.today, this.on]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    setVerdict(this.root, verdict(this.events, view));
    setText(byId("calendar-span"), spanText(view, this.on, first));
    const focused = document.activeElement?.dataset?.key;
    const href = (one) => this.#href({ on: this.on, event: key(one) });
    this.grid.replaceChildren(view === "month"
      ? monthGrid(this.events, this.on, zone, this.today, href, (day) => this.#href({ view: "week", on: day, event: "" }))
      : week(this.events, first, zone, this.today, href));
    if (focused) [...this.grid.querySelectorAll(".chip")].find((link) => link.dataset.key === focused)?.focus({ preventScroll: true });
  }

  /** The occurrence that the address names, if it is in what is shown. */
  async #open() {
    const one = this.events.find((event) => key(event) === this.given.event) ?? null;
    for (const link of this.grid.querySelectorAll(".chip")) {
      if (one && link.dataset.key === this.given.event) link.ariaCurrent = "true";
      else link.removeAttribute("aria-current");
    }
    const opened = JSON.stringify([one, this.clocks]);
    if (opened === this.opened) return;
    this.opened = opened;
    const shown = this.occasion.open(one, this.id, this.clocks, this.now);
    if (one && this.chosen) this.occasion.heading.focus();
    this.chosen = false;
    await shown;
  }

  async #subscribe(id) {
    const link = byId("subscribe");
    show(link, false);
    if (!id) return;
    try {
      const { path } = await feedPath({ calendar: id });
      link.href = path;
      show(link, id === this.id);
    } catch (error) {
      // The rest of the view says what is wrong; without an address there is nothing to subscribe to.
      console.info(`the feed's address is not known: ${error.message}`);
    }
  }

  #step(step) {
    const on = this.given.on || this.today;
    if (!on) return;
    const by = step === "later" ? 1 : -1;
    const moved = this.given.view === "month" ? month(on, by) : plus(monday(on), 7 * by);
    this.#go({ on: step === "today" ? "" : moved, event: "" });
  }

  #key(event) {
    if (this.root.hidden || !this.id || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    if (Object.hasOwn(KEYS, event.key)) this.#step(KEYS[event.key]);
    if (event.key === "w" || event.key === "m") this.#go({ view: event.key === "w" ? "week" : "month" });
    if (event.key === "Escape" && this.given.event) this.#go({ event: "" });
  }

  #href(change) {
    return `#/calendars/${encodeURIComponent(this.id)}?${queryString({ ...this.given, ...change })}`;
  }

  #go(change) {
    const address = this.#href(change);
    if (address === location.hash) return;
    const focused = document.activeElement;
    location.hash = address;
    // A new address takes the focus to the heading; who goes from week to week stays on the button.
    window.addEventListener("hashchange", () => focused?.focus({ preventScroll: true }), { once: true });
  }
}

/** All pages of a window, at most MOST_PAGES. */
async function everything(query) {
  const answer = await calendarEvents(query);
  for (let pages = 1; answer.cursor && pages < MOST_PAGES; pages++) {
    const more = await calendarEvents({ ...query, cursor: answer.cursor });
    answer.events.push(...more.events);
    answer.cursor = more.cursor;
  }
  return answer;
}

function spanText(view, on, first) {
  if (view === "month") return dayText(on, { month: "long", year: "numeric" });
  const last = plus(first, 6);
  const parts = first.slice(0, 7) === last.slice(0, 7) ? { day: "numeric" } : first.slice(0, 4) === last.slice(0, 4) ? { day: "numeric", month: "long" } : { day: "numeric", month: "long", year: "numeric" };
  return `${dayText(first, parts)} to ${dayText(last, { day: "numeric", month: "long", year: "numeric" })}`;
}

function says({ events, cursor, unreadable, zone: had }, own) {
  return [
    had === null ? "It never had an event; tickstream calendar import puts some there." : "",
    known(own) ? "" : `This browser does not know the calendar's zone, ${plain(own)}: times are in yours.`,
    cursor ? `Only the first ${count(events.length)} are shown.` : "",
    unreadable.length ? `${counted(unreadable.length, "event")} cannot be expanded: ${unreadable.map((one) => `${plain(one.uid)} (${plain(one.reason)})`).join(", ")}.` : "",
  ].filter(Boolean).join(" ");
}

function fillName(cell, { calendar }) {
  if (!cell.firstChild) cell.append(make("a", {}, make("bdi")));
  cell.firstChild.href = `#/calendars/${encodeURIComponent(calendar)}`;
  setText(cell.firstChild.firstChild, plain(calendar));
}
