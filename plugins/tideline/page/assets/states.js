/**
 * Words and marks for states: a mark as well as a colour.
 * @module
 */
import { h } from "./dom.js";

/**
 * The worst first; `unknown` is a stream whose ledger or file gives no status. Whether its Dag is paused, or its last
 * run has failed, Airflow says: see `airflow.js`.
 */
export const STATES = {
  halted: { label: "halted", mark: "■", tone: "bad", hint: "an incident is open and waits for a decision" },
  waiting: { label: "waiting", mark: "◆", tone: "ask", hint: "a run waits in an approval form" },
  failed: { label: "last run failed", mark: "×", tone: "bad", hint: "the run's tasks say why" },
  unknown: { label: "unknown", mark: "?", tone: "dim", hint: "its ledger has not answered yet" },
  paused: { label: "paused", mark: "‖", tone: "warn", hint: "the Dag is paused, so no run begins" },
  decided: { label: "decided", mark: "▷", tone: "warn", hint: "the decision waits for a run" },
  behind: { label: "behind", mark: "▲", tone: "warn", hint: "offsets are unread, or not decoded" },
  never_run: { label: "never run", mark: "○", tone: "dim", hint: "no run has landed anything" },
  up_to_date: { label: "up to date", mark: "●", tone: "good", hint: "everything is landed" },
};

const RANKS = Object.fromEntries(Object.keys(STATES).map((name, rank) => [name, rank]));

/** @param {Object} listed ListedStream with `paused` and `failed` @returns {string} A key of `STATES`. */
export function stateOf(listed) {
  const told = ledgerState(listed);
  if (told === "halted" || told === "waiting" || told === "unknown") return told;
  if (listed.paused) return "paused";
  return listed.failed && told !== "decided" ? "failed" : told;
}

/** What the ledger and the brokers say, whatever Airflow does. @param {Object} listed @returns {string} */
export const ledgerState = ({ status }) => (status && status.state in STATES ? status.state : "unknown");

/** Whether somebody has to do something: a decision, a failed or paused Dag, or records that are about to be deleted. */
export function needsSomebody(listed) {
  const { status, retention_seconds: kept } = listed;
  const left = status?.headroom_seconds ?? null;
  const isScarce = left !== null && left <= (kept ?? 0) / 10;
  return isScarce || ["halted", "waiting", "failed", "paused"].includes(stateOf(listed));
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
