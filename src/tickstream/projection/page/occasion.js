// What is known of one occurrence: when, on both clocks, what it meets, and when its event takes place next.

import { calendarEvents } from "./api.js";
import { taskHref } from "./cells.js";
import { byId, make, setText, show } from "./dom.js";
import { count, plain } from "./format.js";
import { marks, title, when } from "./occurrences.js";

const NEXT = 5;
const AHEAD_MS = 400 * 86_400_000;

export class Occasion {
  constructor() {
    this.root = byId("occasion");
    this.heading = byId("occasion-h");
    this.facts = this.root.querySelector(".facts");
    this.next = byId("occasion-next");
    this.note = byId("occasion-note");
  }

  /** Show an occurrence of `calendar`; null: none. `clocks`: the zones, the shown one first. */
  async open(one, calendar, clocks, now) {
    show(this.root, one !== null);
    if (one === null) return;
    setText(this.heading, title(one));
    const others = one.conflicts.map((other) => `${plain(other.uid)}, ${when(other, clocks[0])}`);
    if (one.conflict_count > one.conflicts.length) others.push(`and ${count(one.conflict_count - one.conflicts.length)} more`);
    const pairs = [
      ...clocks.map((zone, n) => [n ? `In ${zone}` : "When", n ? when(one, zone) : `${when(one, zone)} (${zone})`]),
      ["Meets", others.join("; ")],
      ["To be known", marks(one).filter((mark) => !mark.startsWith("meets")).join("; ")],
      ["Where", plain(one.location)],
      ["Recurs", one.recurring ? plain(one.rule) || "on dates of its own" : ""],
      ["Who", one.attendees.map(plain).join(", ")],
      ["About", plain(one.description)],
    ].filter(([, said]) => said);
    const task = make("a", { href: taskHref(one.task_id) }, make("bdi", {}, plain(one.uid)));
    this.facts.replaceChildren(
      ...pairs.map(([name, said]) => make("div", {}, make("dt", {}, name), make("dd", {}, make("bdi", {}, said)))),
      make("div", {}, make("dt", {}, "Task"), make("dd", {}, task)),
    );
    await this.#whenNext(one, calendar, clocks[0], now);
  }

  async #whenNext(one, calendar, zone, now) {
    this.next.replaceChildren();
    setText(this.note, "Loading…");
    try {
      const answer = await calendarEvents({ calendar, uid: one.uid, start: now, end: now + AHEAD_MS, limit: NEXT });
      this.next.replaceChildren(...answer.events.map((next) => make("li", {}, [when(next, zone), ...marks(next)].join(", "))));
      setText(this.note, answer.events.length ? "" : "It does not take place any more within 400 days.");
    } catch (error) {
      setText(this.note, error.message);
    }
  }
}
