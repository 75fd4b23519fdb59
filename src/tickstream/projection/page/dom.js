// Elements, made and changed as little as possible. Text goes in as text only: nothing here parses markup.

/** An element with properties and children (nodes or text). */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Set the text, and leave the node alone where it says so already (a selection in it survives). */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show or hide. */
export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/** A verdict's level and words, and the sentence that goes with it. */
export function setVerdict(section, { level, says, detail = "" }) {
  const verdict = section.querySelector(".verdict");
  if (verdict.dataset.level !== level) verdict.dataset.level = level;
  setText(verdict.querySelector("strong"), says);
  setText(section.querySelector(".detail"), detail);
}
