/**
 * A stream in a few numbers.
 * @module
 */
import { curve, headroomBar } from "./bars.js";
import { h, update } from "./dom.js";
import { NOTHING, count, middle, time } from "./format.js";
import { STATES, stateBadge, stateOf } from "./states.js";

/**
 * @param {Element} body
 * @param {Object} page StreamPage
 */
export function showFacts(body, page) {
  const { status } = page;
  const state = stateOf(page);
  update(
    body,
    h("div", { class: "headline" }, h("h1", {}, page.stream), stateBadge(state), h("span", { class: "dim" }, STATES[state].hint)),
    h("p", { class: "flow" }, h("code", {}, page.topics), h("span", { "aria-label": "lands in" }, " → "), h("code", {}, page.table)),
    h("dl", { class: "facts" },
      fact("Lag", status ? lag(status) : NOTHING, "unread offsets"),
      fact("Oldest unread", time(status?.oldest_unread_at, "age"), "its age"),
      fact("Headroom", headroomBar(status?.headroom_seconds, page.retention_seconds), "until retention reaches an unread record"),
      fact("Last landed run", run(status), status?.last_run ? `table version ${count(status.last_landed_version)}` : "none yet"),
      fact("An average day", curve(page.days), "filled: rows; line: bytes"),
      status?.undecoded !== null && status && fact("Not decoded", count(status.undecoded), "landed offsets without a typed row"),
      fact("Partitions", count(status?.partitions), page.schedule ? `runs: ${page.schedule}` : "no schedule: runs by hand"),
      fact("Cluster", h("span", { class: "id", title: page.cluster_id }, page.cluster_id ? middle(page.cluster_id, 22) : NOTHING), versions(page)),
      fact("Ledger asked", look(page.ledger), page.ledger.problem ? "it does not answer now" : "answers"),
      fact("Brokers asked", look(page.brokers), page.brokers.problem ? "they do not answer now" : "at most once in ten seconds"),
    ),
  );
}

function fact(name, value, note) {
  return h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, h("div", { class: "value" }, value), h("div", { class: "note" }, note)));
}

function lag(status) {
  return h("span", { title: status.is_measured ? null : "as the last run saw it" }, !status.is_measured && status.offset_lag !== null && "≥ ", count(status.offset_lag));
}

function run(status) {
  return status?.last_run ? h("span", { class: "id", title: status.last_run }, middle(status.last_run, 28)) : NOTHING;
}

function versions(page) {
  return page.table_version === null ? "table not yet made" : `table version ${count(page.table_version)}`;
}

function look({ asked_at, problem }) {
  return h("span", { class: problem ? "over" : null, title: problem }, problem && "⚠ ", asked_at ? time(asked_at) : "never answered");
}

