/**
 * Incidents: what was found, what is at stake, the choices, who decided.
 * @module
 */
import { answerForm, isChosenHere } from "./decide.js";
import { h, update } from "./dom.js";
import { count, exact, plural, range, time } from "./format.js";
import { airflowLink, runbookLink } from "./links.js";
import { mostAtStake } from "./stakes.js";
import { badge } from "./states.js";
import { triggerButton } from "./trigger.js";

/** @param {Element} body @param {Object} page StreamPage @param {() => void} refresh Ask the ledger anew. */
export function showOpen(body, page, refresh) {
  const again = () => showOpen(body, page, refresh);
  update(body, page.incidents.map((one) => h("article", { class: `incident open ${one.decision ? "decided" : ""}`, "data-key": one.id, "aria-label": `${one.id}: ${one.class}` },
    h("div", { class: "title" }, title(one), h("span", { class: "dim" }, "open since ", time(one.opened_at))), details(one, page),
    one.decision ? carriedOut(page, one.id, again, refresh) : answerForm(one, page, again, refresh))));
}

function carriedOut(page, id, again, refresh) {
  const next = page.paused ? "The Dag is paused. Unpause the Dag, otherwise no run begins. " : page.schedule ? "The next scheduled run carries the decision out. " : "There is no schedule. ";
  return h("div", { class: "answerway" }, "Decided. The decision waits for a run. ", next, triggerButton("Run now", `run for ${id}`, { dag_id: page.dag_id, conf: {} }, again, refresh));
}

/** @param {Element} body @param {Object[]} incidents Incident @param {boolean} more @param {Object} page StreamPage */
export function showClosed(body, incidents, more, page) {
  update(body,
    incidents.map((one) => h("details", { class: "incident", "data-key": one.id },
      h("summary", {}, title(one), h("span", { class: "dim" }, decided(one), " ", time(one.closed_at))), details(one, page))),
    more && h("p", { class: "dim" }, "For older incidents: tideline ledger."));
}

function title(one) {
  const tone = one.decision ? "warn" : "bad";
  const kind = one.closed_at ? badge(one.class, "dim") : badge(one.class, tone, "■");
  return [kind, h("b", {}, place(one)), h("span", { class: "id" }, one.id)];
}

function place({ topic, partition }) {
  if (topic === null) return "the stream";
  return partition === null ? topic : `${topic}-${partition}`;
}

const decided = ({ decision, decided_by, outcome }) => `${decision ?? outcome ?? "closed"}${decided_by ? ` by ${decided_by}` : ""}`;

function details(one, page) {
  const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return [
    h("p", { class: "cause" }, sentence(one.cause)),
    h("dl", { class: "finding" },
      fact("Expected", one.expected),
      fact("Found", one.actual),
      one.detail && fact("Detail", one.detail),
      fact("At stake", stake(one)),
      one.closed_at === null && one.decision === null && !isChosenHere(one, page) && fact("Choices", choices(one)),
      one.decision && fact("Decision", decision(one)),
      one.outcome && fact("Outcome", one.outcome),
      one.removed_in_version !== null && fact("Rows removed in", `table version ${count(one.removed_in_version)}`),
      one.backfill && fact("Backfill", one.backfill),
      one.topic_id && fact("Topic id", h("span", { class: "id" }, one.topic_id)),
      fact("Run", run(one, page)),
    ),
    one.closed_at === null && !one.decision && h("p", { class: "next" }, h("b", {}, "Next: "), sentence(one.next_step)),
    h("p", { class: "runbook" }, h("b", {}, "Runbook: "), runbookLink(page.docs, one.runbook, one.class)),
  ];
}

function decision({ decision, decided_by, decided_at, reason }) {
  const by = ` by ${decided_by ?? "a policy"} `;
  return [h("b", {}, decision), by, time(decided_at), reason && h("q", {}, reason)];
}

function run({ run_id }, page) {
  const url = `dags/${encodeURIComponent(page.dag_id)}/runs/${encodeURIComponent(run_id)}`;
  return airflowLink(url, h("span", { class: "run" }, run_id));
}

function stake(one) {
  const known = one.lost_start !== null && one.lost_end !== null;
  const between = one.lost_from && one.lost_until ? [", written between ", exactly(one.lost_from), " and ", exactly(one.lost_until)] : null;
  const parts = one.intervals.length > 1 ? ` in ${plural(one.intervals.length, "interval")}: ${intervals(one.intervals)}` : "";
  if (known) {
    const most = plural(mostAtStake(one), "record");
    return [h("b", {}, range(one.lost_start, one.lost_end)), `: at most ${most}`, parts, between];
  }
  if (one.offsets_at_stake) return [`at most ${plural(one.offsets_at_stake, "record")}`, parts, between];
  return one.intervals.length ? intervals(one.intervals) : "unknown, or no record";
}

function intervals(list) {
  const shown = list.slice(0, 5).map(({ start_offset, end_offset }) => range(start_offset, end_offset)).join(", ");
  return list.length > 5 ? `${shown} and ${count(list.length - 5)} more` : shown;
}

const exactly = (iso) => h("span", { class: "when" }, exact(iso));

function choices(one) {
  if (!one.decidable) return "none can be carried out now";
  return one.choices.map((choice) => [h("code", { class: "choice" }, choice), " "]);
}

/** A text of a message as a sentence of a page. @param {string} text */
function sentence(text) {
  if (!text) return "";
  const begun = text[0].toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
