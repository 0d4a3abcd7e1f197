/**
 * Sections with a heading, shown from their first answer on.
 * @module
 */
import { h } from "./dom.js";

/**
 * @param {string} id
 * @param {string} title
 * @param {string|null} [hint]
 * @returns {{body: Element, whole: Element}} `whole` is hidden until `reveal`.
 */
export function section(id, title, hint = null) {
  const body = h("div", { class: "body" });
  const heading = h("h2", { id: `${id}-title` }, title, hint && h("span", { class: "hint" }, hint));
  return { body, whole: h("section", { id, "aria-labelledby": `${id}-title`, hidden: true }, heading, body) };
}

/** @param {Element} body @param {boolean} [shown] */
export function reveal(body, shown = true) {
  body.parentElement.hidden = !shown;
}
