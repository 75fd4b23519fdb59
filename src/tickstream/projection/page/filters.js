// The filters of a list: every state by its word, and what else a list may be narrowed by. They make an address.

import { queryString } from "./api.js";
import { make } from "./dom.js";
import { MEANINGS, STATES } from "./states.js";

const FIELDS = [
  ["queue", "Queue"],
  ["handler", "Handler"],
  ["label", "Label (name:value)"],
  ["id_prefix", "Id begins with"],
  ["error", "Error contains"],
];
const KEPT = ["calendar", "error_like", "start", "end"]; // set by links only; they stay until the list is left

export class Filters {
  constructor(form) {
    this.form = form;
    this.given = new URLSearchParams();
    this.boxes = STATES.map((state) => make("input", { type: "checkbox", name: "state", value: state }));
    this.fields = FIELDS.map(([name, title]) => make("input", { name, placeholder: title, ariaLabel: title, autocomplete: "off", spellcheck: false }));
    form.append(
      make("fieldset", {}, make("legend", { className: "unseen" }, "States"),
        ...this.boxes.map((box) => make("label", { title: MEANINGS[box.value] }, box, box.value))),
      make("div", { className: "fields" }, ...this.fields, make("button", {}, "Filter")),
    );
    form.addEventListener("change", (event) => event.target.name === "state" && this.#go());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#go();
    });
  }

  /** Show what the list is narrowed by now. */
  show(given) {
    this.given = given;
    const states = given.getAll("state");
    for (const box of this.boxes) box.checked = states.includes(box.value);
    for (const field of this.fields) field.value = given.get(field.name) ?? "";
  }

  #go() {
    const query = { state: this.boxes.filter((box) => box.checked).map((box) => box.value) };
    for (const field of this.fields) query[field.name] = field.value;
    for (const name of KEPT) query[name] = this.given.get(name);
    const labels = this.given.getAll("label");
    if (labels.length > 1 && query.label === labels[0]) query.label = labels;
    const focused = document.activeElement;
    const address = `#/list?${queryString(query)}`;
    if (address === location.hash) return;
    location.hash = address;
    // A new address takes the focus to the heading; who ticks boxes goes on ticking.
    window.addEventListener("hashchange", () => focused?.focus({ preventScroll: true }), { once: true });
  }
}
