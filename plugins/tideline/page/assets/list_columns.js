/**
 * The columns of the list of streams: what each cell shows, and what it is sorted by.
 * @module
 */
import { average, curve, headroomBar } from "./bars.js";
import { h } from "./dom.js";
import { NOTHING, count, runName, time } from "./format.js";
import { airflowLink, streamLink } from "./links.js";
import { STATES, badge, ledgerState, rank, stateBadge, stateOf } from "./states.js";

/** As `Column` of table.js, each with `value`: what it is sorted by; null and undefined are unknown. */
export const COLUMNS = [
  { id: "stream", label: "Stream", cell: nameCell, value: (one) => one.stream },
  { id: "state", label: "State", cell: stateCell, value: (one) => rank(stateOf(one)) },
  {
    id: "lag", label: "Lag", number: true, hint: "unread offsets",
    cell: ({ status }) => lag(status), value: ({ status }) => status?.offset_lag,
  },
  {
    id: "oldest", label: "Oldest", number: true, hint: "age of the oldest unread record, as the last run saw it",
    cell: ({ status }) => time(status?.oldest_unread_at, "age"), value: ({ status }) => age(status?.oldest_unread_at),
  },
  {
    id: "headroom", label: "Headroom", hint: "time until retention reaches an unread record",
    cell: headroomBar,
    value: ({ status }) => status?.headroom_seconds,
  },
  { id: "landed", label: "Last landed run", cell: runCell, value: ({ status }) => status?.last_run },
  {
    id: "days", label: "A day", hint: "filled: rows; line: bytes; the number is an average day",
    cell: ({ days }) => curve(days), value: ({ days }) => (days.length ? average(days).rows : null),
  },
  {
    id: "quarantine", label: "Quarantine", number: true, hint: "records without a typed row",
    cell: ({ status }) => (status?.in_quarantine ? badge(count(status.in_quarantine), "warn") : count(status?.in_quarantine)), value: ({ status }) => status?.in_quarantine,
  },
  {
    id: "incidents", label: "Incidents", number: true, hint: "open incidents",
    cell: incidentsCell, value: ({ status }) => status?.open_incidents,
  },
].map((column) => ({ ...column, sortable: true }));

/** Unread offsets; marked where only the last run saw them. @param {Object|null} status StreamStatus */
export function lag(status) {
  if (!status || status.offset_lag === null) return NOTHING;
  const props = status.is_measured ? {} : { title: `as the last run saw it: ${status.problem}` };
  return h("span", props, !status.is_measured && "≥ ", count(status.offset_lag));
}

function nameCell({ stream, topics, table, fleet }) {
  const flow = topics === stream ? table : `${topics} → ${table}`;
  return [streamLink(stream), fleet && h("span", { class: "dim", title: "fleet" }, ` ${fleet}`), h("span", { class: "sub", title: flow }, flow)];
}

function stateCell(one) {
  const [whose, look] = one.ledger.problem ? ["ledger", one.ledger] : ["brokers", one.brokers];
  const seen = look.asked_at && [", seen ", time(look.asked_at)];
  const doubt = !look.problem && one.brokers.asked_at && one.status?.problem;
  return [
    stateBadge(stateOf(one)),
    (one.paused || one.failed) && h("span", { class: "sub" }, ofDag(one)),
    look.problem && h("span", { class: "sub warn", title: look.problem }, `${whose} away`, seen),
    doubt && h("span", { class: "sub warn", title: doubt }, doubt),
    one.warning && h("span", { class: "sub warn", title: one.warning }, one.warning),
  ];
}

/** What stands behind a paused or failed Dag, and the way there. */
function ofDag({ paused, dag_id: dag, ...one }) {
  const runs = paused ? "" : "/runs?state=failed";
  return [`${STATES[ledgerState(one)].label}; `, airflowLink(`dags/${encodeURIComponent(dag)}${runs}`, paused ? "its Dag" : "its runs")];
}

function runCell({ status }) {
  if (!status?.last_run) return NOTHING;
  return [runName(status.last_run), h("span", { class: "sub" }, `table version ${count(status.last_landed_version)}`)];
}

function incidentsCell({ status }) {
  if (status?.open_incidents) return badge(count(status.open_incidents), "bad", "", "open incidents");
  return h("span", { class: "dim" }, status ? "0" : NOTHING);
}

const age = (iso) => (iso ? Date.now() - Date.parse(iso) : null);
