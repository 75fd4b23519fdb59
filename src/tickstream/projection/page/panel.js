// A view of one question: it asks on its own rhythm while it is shown, and says in words what it waits for
// or what went wrong. What was shown last stays until there is a new answer.

import { setText } from "./dom.js";

export class Panel {
  /** `everyMs`: how often it asks at most. A subclass has `ask()`; what that resolves to is the note. */
  constructor(root, everyMs) {
    this.root = root;
    this.everyMs = everyMs;
    this.note = root.querySelector(":scope > .note");
    this.askedAt = -Infinity;
    this.fetching = false;
    this.answered = false;
  }

  /** It comes to be shown. */
  open() {
    this.askedAt = -Infinity;
    if (!this.answered) this.#say("Loading…", false);
    return this.update();
  }

  /** Ask again, unless that is under way or was done a moment ago. */
  async update() {
    if (this.fetching || performance.now() - this.askedAt < this.everyMs) return;
    this.fetching = true;
    this.askedAt = performance.now();
    try {
      this.#say(await this.ask(), false);
      this.answered = true;
    } catch (error) {
      this.#say(`${error.message} (trying again)`, true);
    } finally {
      this.fetching = false;
    }
    if (this.askedAt === -Infinity) await this.update(); // opened anew meanwhile, perhaps for something else
  }

  #say(text, failed) {
    setText(this.note, text);
    this.note.classList.toggle("problem", failed);
  }
}
