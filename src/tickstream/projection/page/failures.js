// The view of what was given up on: a group per handler and error, with examples and the shell line that lists it.

import { failures, queryString } from "./api.js";
import { setTime, taskHref } from "./cells.js";
import { byId, make, setText, setVerdict } from "./dom.js";
import { count, counted, instant, plain } from "./format.js";
import { Panel } from "./panel.js";

const EVERY_MS = 5_000;
const GROUPS = 50;
const COPIED_MS = 2_000;

export class FailuresView extends Panel {
  constructor(root) {
    super(root, EVERY_MS);
    this.list = byId("failure-groups");
    this.groups = new Map();
  }

  async ask() {
    const answer = await failures({ limit: GROUPS });
    setVerdict(this.root, verdict(answer));
    this.#show(answer.groups, answer.as_of);
    const cut = answer.group_count > answer.groups.length ? `The largest ${count(answer.groups.length)} of ${counted(answer.group_count, "group")}. ` : "";
    const from = answer.whole_from_ms;
    return from === null ? cut : `${cut}Only those since ${instant(from, answer.as_of)}: earlier ones were too many to look at.`;
  }

  #show(groups, now) {
    const before = this.groups;
    this.groups = new Map();
    groups.forEach((group, n) => {
      const key = JSON.stringify([group.handler, group.error]);
      const card = before.get(key) ?? new Card();
      before.delete(key);
      this.groups.set(key, card);
      card.show(group, now);
      if (this.list.children[n] !== card.root) this.list.insertBefore(card.root, this.list.children[n] ?? null);
    });
    for (const card of before.values()) card.root.remove();
  }
}

function verdict({ count: all, group_count: groups }) {
  if (!all) return { level: "good", says: "Nothing was given up on in the last day" };
  return {
    level: "bad",
    says: `${counted(all, "occurrence")} given up on in the last day`,
    detail: `In ${counted(groups, "group")} of the same handler and error; numbers and ids in an error read #.`,
  };
}

/** One group; its elements stay while it is shown, so that focus and selection survive. */
class Card {
  constructor() {
    this.error = make("bdi");
    this.times = make("strong", { className: "times" });
    this.handler = make("bdi");
    this.queues = make("bdi");
    this.first = make("time");
    this.last = make("time");
    this.examples = make("span", { className: "examples" });
    this.all = make("a");
    this.list = new Line();
    this.replay = new Line();
    this.root = make("li", {},
      make("h3", {}, this.times, " ", this.error),
      make("p", {}, "handler ", this.handler, " · queue ", this.queues, " · first ", this.first, " · last ", this.last),
      make("p", {}, "for example ", this.examples, " · ", this.all),
      this.list.root,
      this.replay.root,
    );
  }

  show(group, now) {
    setText(this.times, `${count(group.count)} ×`);
    setText(this.error, plain(group.error) || "no error text");
    setText(this.handler, plain(group.handler));
    setText(this.queues, group.queues.map(plain).join(", "));
    setTime(this.first, group.first_ms, now);
    setTime(this.last, group.last_ms, now);
    this.#examples(group.examples);
    const all = counted(group.count, "occurrence");
    this.list.show(group.command, `lists ${all}`, plain(group.error));
    this.replay.show(group.replay, `gives ${all} another chance`, plain(group.error));
    const query = { state: "dead", handler: group.handler, error_like: group.error, start: group.oldest_ts, end: group.newest_ts + 1 };
    this.all.href = `#/list?${queryString(query)}`;
    setText(this.all, `all ${count(group.count)}`);
  }

  #examples(examples) {
    const ids = JSON.stringify(examples.map((one) => one.task_id));
    if (ids === this.ids) return;
    this.ids = ids;
    const links = examples.map((one) => make("a", { href: taskHref(one.task_id) }, make("bdi", {}, plain(one.task_id))));
    this.examples.replaceChildren(...links.flatMap((link, n) => (n ? [", ", link] : [link])));
  }

}

/** A shell line to be copied, and what it does. */
class Line {
  constructor() {
    this.command = make("code");
    this.does = make("span");
    this.copy = make("button", { type: "button" }, "Copy");
    this.copy.addEventListener("click", () => this.#copy());
    this.root = make("div", { className: "command" }, this.command, this.copy, this.does);
  }

  show(command, does, error) {
    // What is copied is what was shown: direction marks stay spelled out, and such a line matches nothing.
    setText(this.command, plain(command));
    setText(this.does, does);
    this.copy.ariaLabel = `Copy the command that ${does} of ${error}`;
  }

  async #copy() {
    const text = this.command.textContent;
    try {
      await navigator.clipboard.writeText(text);
      setText(this.copy, "Copied");
    } catch (error) {
      // Not a secure context, or not allowed: then the line is selected, to be copied by key.
      console.info(`copying is not possible here: ${error.message}`);
      getSelection().selectAllChildren(this.command);
      setText(this.copy, "Selected");
    }
    setTimeout(() => setText(this.copy, "Copy"), COPIED_MS);
  }
}
