/**
 * Words and marks for states: a mark as well as a colour.
 * @module
 */
import { h } from "./dom.js";

/** The worst first; `unknown` is a stream whose ledger or file gives no status. */
export const STATES = {
  halted: { label: "halted", mark: "■", tone: "bad", hint: "an incident is open, and nobody was asked" },
  waiting: { label: "waiting for a person", mark: "◆", tone: "ask", hint: "a person has been asked" },
  unknown: { label: "unknown", mark: "?", tone: "dim", hint: "its ledger has not answered yet" },
  behind: { label: "behind", mark: "▲", tone: "warn", hint: "offsets are unread, or not decoded" },
  never_run: { label: "never run", mark: "○", tone: "dim", hint: "no run has landed anything" },
  up_to_date: { label: "up to date", mark: "●", tone: "good", hint: "everything is landed" },
};

const RANKS = Object.fromEntries(Object.keys(STATES).map((name, rank) => [name, rank]));

/** @param {Object} listed ListedStream @returns {string} A key of `STATES`. */
export function stateOf(listed) {
  return listed.status && listed.status.state in STATES ? listed.status.state : "unknown";
}

/** @param {string} state @returns {number} 0 is the worst. */
export const rank = (state) => RANKS[state];

/** @param {string} text @param {string} tone @param {string} [mark] @param {string} [title] */
export function badge(text, tone, mark = "", title = null) {
  return h("span", { class: `badge ${tone}`, title }, mark && h("span", { class: "mark", "aria-hidden": "true" }, mark), text);
}

/** @param {string} state A key of `STATES`. */
export function stateBadge(state) {
  const { label, mark, tone, hint } = STATES[state];
  return badge(label, tone, mark, hint);
}
