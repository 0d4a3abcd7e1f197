/**
 * The line at the top: where the reader is, how old what is shown is, and a button to ask now.
 * @module
 */
import { h, update } from "./dom.js";
import { time } from "./format.js";

/**
 * @param {string|null} stream The one that is shown; null for all of them.
 * @param {() => void} refresh
 */
export function showTop(stream, refresh) {
  const here = (name) => h("span", { class: "crumb", "aria-current": "page" }, name);
  const path = stream ? [h("a", { href: "./", class: "crumb" }, "Streams"), here(stream)] : here("Streams");
  document.getElementById("top").replaceChildren(
    h("nav", { "aria-label": "Where you are" }, h("span", { class: "brand" }, "Tideline"), path),
    h("div", { class: "asked" }, h("span", { id: "asked", class: "dim" }), h("button", { type: "button", onclick: refresh }, "Refresh")),
  );
}

/** @param {string} at ISO @param {boolean} refreshing Whether a look is under way. */
export function showAsked(at, refreshing) {
  update(document.getElementById("asked"), refreshing ? "looking… " : "", "updated ", time(at));
}
