/**
 * What can be done: by a button where no more has to be said, else in Airflow's own forms.
 * @module
 */
import { announce, h, update } from "./dom.js";
import { airflowLink } from "./links.js";
import { triggerButton } from "./trigger.js";

/**
 * @param {Element} body
 * @param {Object[]} actions Action: title, url, fill, note, command, trigger.
 * @param {() => void} refresh Ask the ledger anew.
 */
export function showActions(body, actions, refresh) {
  const again = () => showActions(body, actions, refresh);
  update(body, h("ul", { class: "actions" }, actions.map((one) => action(one, again, refresh))));
}

function action({ title, url, fill, note, command, trigger }, again, refresh) {
  return h("li", { "data-key": `${title} ${url}` },
    h("div", { class: "way" }, trigger ? triggerButton(title, title, trigger, again, refresh) : airflowLink(url, title)),
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
