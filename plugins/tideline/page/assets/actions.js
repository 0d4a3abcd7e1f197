/**
 * Ways to Airflow's own forms. This page itself changes nothing.
 * @module
 */
import { announce, h, update } from "./dom.js";
import { airflowLink } from "./links.js";

/**
 * @param {Element} body
 * @param {Object[]} actions Action: title, url, fill, note, command.
 */
export function showActions(body, actions) {
  update(body, h("ul", { class: "actions" }, actions.map(action)));
}

function action({ title, url, fill, note, command }) {
  return h("li", { "data-key": `${title} ${url}` },
    h("div", { class: "way" }, airflowLink(url, title)),
    note && h("p", { class: "dim" }, note),
    fill !== null && copied("values", title, pretty(fill)),
    command && [h("p", { class: "dim" }, "In a shell:"), copied("command", title, command)]);
}

/** A text with a button that copies it; it wraps, so that all of it is seen. */
function copied(what, title, text) {
  return h("div", { class: "values" },
    h("pre", { tabindex: "0", "aria-label": `The ${what}: ${title}` }, text),
    h("button", { type: "button", "aria-label": `Copy the ${what}: ${title}`, onclick: copy }, "Copy"));
}

function pretty(fill) {
  try {
    return JSON.stringify(JSON.parse(fill), null, 2);
  } catch {
    return fill;
  }
}

async function copy(event) {
  const button = event.currentTarget;
  const source = button.previousElementSibling;
  const done = (await toClipboard(source.textContent)) || bySelection(source);
  announce(done ? "copied" : "selected; copy it with the keyboard");
  button.textContent = done ? "Copied" : "Selected";
  setTimeout(() => (button.textContent = "Copy"), 2_000);
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not over plain http, and not where the browser forbids it
  }
}

function bySelection(source) {
  const selection = window.getSelection();
  selection.selectAllChildren(source);
  return document.execCommand("copy");
}
