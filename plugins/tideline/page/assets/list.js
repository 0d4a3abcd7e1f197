/**
 * All streams: the worst first, sorted by any column, filtered, searched.
 * @module
 */
import * as api from "./api.js";
import { average, curve, headroomBar } from "./bars.js";
import { announce, h, rows, update } from "./dom.js";
import { NOTHING, count, middle, plural, time } from "./format.js";
import { streamLink } from "./links.js";
import { errorNotice, manyLooks, showNotices } from "./notices.js";
import { keepFresh } from "./refresh.js";
import { STATES, badge, rank, stateBadge, stateOf } from "./states.js";
import { compare, headRow, row, table } from "./table.js";
import { showTop, showAsked } from "./top.js";

const DOWN_FIRST = ["lag", "oldest", "landed", "days", "incidents"];

const COLUMNS = [
  { id: "stream", label: "Stream", cell: nameCell, value: (one) => one.stream },
  { id: "state", label: "State", cell: stateCell, value: (one) => rank(stateOf(one)) },
  { id: "lag", label: "Lag", number: true, hint: "unread offsets", cell: lagCell, value: (one) => one.status?.offset_lag },
  { id: "oldest", label: "Oldest unread", number: true, hint: "age of the oldest unread record, as the last run saw it",
    cell: (one) => time(one.status?.oldest_unread_at, "age"), value: (one) => ageOf(one.status?.oldest_unread_at) },
  { id: "headroom", label: "Headroom", hint: "time until retention reaches an unread record",
    cell: (one) => headroomBar(one.status?.headroom_seconds, one.retention_seconds), value: (one) => one.status?.headroom_seconds },
  { id: "landed", label: "Last landed run", cell: runCell, value: (one) => one.status?.last_run },
  { id: "days", label: "A day", hint: "filled: rows; line: bytes; the numbers are an average day", cell: (one) => curve(one.days),
    value: (one) => (one.days.length ? average(one.days).rows : null) },
  { id: "incidents", label: "Incidents", number: true, hint: "open incidents", cell: incidentsCell, value: (one) => one.status?.open_incidents },
].map((column) => ({ ...column, sortable: true }));

const seen = { streams: null, at: null };
const wanted = readAddress();
const parts = {};

/** Show the list, and keep it fresh. */
export function showList() {
  document.title = "Streams · Tideline";
  build();
  showTop(null, keepFresh(load));
}

function build() {
  const made = table("All streams that you may read", COLUMNS, "cards list");
  Object.assign(parts, made, {
    chips: h("div", { class: "chips", role: "group", "aria-label": "Filter by state" }),
    found: h("span", { class: "dim found" }),
    box: h("div", { class: "scrollbox", hidden: true }, made.table),
    empty: h("div", { class: "empty" }, h("p", { class: "loading" }, "Loading…")),
  });
  const search = h("input", {
    type: "search", id: "search", placeholder: "Stream, topic or table", autocomplete: "off", spellcheck: "false",
    oninput: (event) => want({ search: event.target.value }),
  });
  search.value = wanted.search;
  document.getElementById("main").replaceChildren(
    h("h1", { class: "unseen" }, "Streams"),
    h("div", { class: "tools" }, parts.chips,
      h("div", { class: "search" }, h("label", { for: "search", class: "unseen" }, "Search streams"), search, parts.found)),
    parts.box,
    parts.empty,
  );
}

async function load() {
  try {
    const answer = await api.streams();
    tellChanges(seen.streams, answer.streams);
    seen.streams = answer.streams;
    seen.at = new Date().toISOString();
    const [ledgers, brokers] = [manyLooks(seen.streams, "ledger", "The ledger"), manyLooks(seen.streams, "brokers", "The brokers")];
    showNotices(ledgers, brokers);
    draw();
    showAsked(seen.at, answer.refreshing);
    return answer.refreshing;
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    showNotices(errorNotice(problem, seen.at));
    if (!seen.streams) update(parts.empty);
    return false;
  }
}

function tellChanges(before, now) {
  if (!before) return;
  const had = new Map(before.map((one) => [one.stream, stateOf(one)]));
  const changed = now.filter((one) => had.has(one.stream) && had.get(one.stream) !== stateOf(one));
  if (changed.length > 3) announce(`${changed.length} streams have changed their state`);
  else if (changed.length) announce(changed.map((one) => `${one.stream}: ${STATES[stateOf(one)].label}`).join(". "));
}

function want(change) {
  Object.assign(wanted, change);
  writeAddress();
  if (!seen.streams) return;
  draw();
  announce(parts.found.textContent);
}

function draw() {
  const started = performance.now();
  const matching = seen.streams.filter(fits);
  const shown = matching.filter((one) => !wanted.state || stateOf(one) === wanted.state).sort(order);
  update(parts.chips, chips(matching));
  const sort = wanted.sort === "worst" ? { by: "state", down: false } : { by: wanted.sort, down: wanted.down };
  update(parts.head, headRow(COLUMNS, sort, onSort));
  rows(parts.body, shown, (one) => one.stream, (one) => JSON.stringify(one), (one) => row(COLUMNS, one));
  update(parts.found, shown.length === seen.streams.length ? plural(shown.length, "stream") : `${count(shown.length)} of ${plural(seen.streams.length, "stream")}`);
  parts.box.hidden = !shown.length;
  update(parts.empty, shown.length ? null : nothing());
  performance.measure("tideline-list", { start: started });
}

function nothing() {
  if (seen.streams.length) {
    return h("p", {}, "No stream fits. ", h("button", { type: "button", class: "plain", onclick: clear }, "Show all"));
  }
  return [
    h("p", {}, h("strong", {}, "No streams.")),
    h("p", { class: "dim" }, "There is no stream file yet, or none of its Dags may be read by you. A stream is one file in the folder of streams: topics in, a table out."),
  ];
}

function clear() {
  document.getElementById("search").value = "";
  want({ search: "", state: "" });
}

function fits(one) {
  const text = wanted.search.trim().toLowerCase();
  return !text || `${one.stream}\n${one.topics}\n${one.table}`.toLowerCase().includes(text);
}

function order(one, other) {
  const worst = rank(stateOf(one)) - rank(stateOf(other));
  const name = one.stream.localeCompare(other.stream);
  if (wanted.sort === "worst") {
    return worst || compare(one.status?.headroom_seconds, other.status?.headroom_seconds, false)
      || compare(one.status?.offset_lag, other.status?.offset_lag, true) || name;
  }
  const { value } = COLUMNS.find(({ id }) => id === wanted.sort);
  return compare(value(one), value(other), wanted.down) || name;
}

function onSort(id) {
  if (id === wanted.sort) want({ down: !wanted.down });
  else if (id === "state" && wanted.sort === "worst") want({ sort: "state", down: true });
  else want({ sort: id, down: DOWN_FIRST.includes(id) });
}

function chips(matching) {
  const counts = new Map();
  for (const one of matching) counts.set(stateOf(one), (counts.get(stateOf(one)) ?? 0) + 1);
  const chip = (state, label, number, tone, mark) =>
    h("button", { type: "button", class: `chip ${tone}`, "data-key": state, "aria-pressed": String(wanted.state === state),
      onclick: () => want({ state: wanted.state === state ? "" : state }) },
      mark && h("span", { class: "mark", "aria-hidden": "true" }, mark), label, " ", h("b", {}, count(number)));
  return [
    chip("", "all", matching.length, "all", ""),
    ...Object.entries(STATES).filter(([state]) => counts.has(state) || state === wanted.state)
      .map(([state, { label, tone, mark }]) => chip(state, label, counts.get(state) ?? 0, tone, mark)),
  ];
}

function nameCell(one) {
  return [streamLink(one.stream), h("span", { class: "sub", title: `${one.topics} → ${one.table}` }, `${one.topics} → ${one.table}`)];
}

function stateCell(one) {
  const [whose, look] = one.ledger.problem ? ["ledger", one.ledger] : ["brokers", one.brokers];
  return [
    stateBadge(stateOf(one)),
    look.problem && h("span", { class: "sub warn", title: look.problem }, `${whose} away`, look.asked_at && [", seen ", time(look.asked_at)]),
  ];
}

function lagCell({ status }) {
  if (!status) return NOTHING;
  return h("span", { title: status.is_measured ? null : "as the last run saw it" }, !status.is_measured && status.offset_lag !== null && "≥ ", count(status.offset_lag));
}

function runCell({ status }) {
  if (!status?.last_run) return NOTHING;
  return [h("span", { class: "run", title: status.last_run }, middle(status.last_run, 26)), h("span", { class: "sub" }, `table version ${count(status.last_landed_version)}`)];
}

function incidentsCell({ status }) {
  return status?.open_incidents ? badge(count(status.open_incidents), "bad", "", "open incidents") : status ? "0" : NOTHING;
}

const ageOf = (iso) => (iso ? Date.now() - Date.parse(iso) : null);

function readAddress() {
  const query = new URLSearchParams(window.location.search);
  const sort = query.get("sort");
  return {
    search: query.get("search") ?? "",
    state: query.get("state") in STATES ? query.get("state") : "",
    sort: COLUMNS.some(({ id }) => id === sort) ? sort : "worst",
    down: query.get("down") === "1",
  };
}

function writeAddress() {
  const query = new URLSearchParams();
  if (wanted.search) query.set("search", wanted.search);
  if (wanted.state) query.set("state", wanted.state);
  if (wanted.sort !== "worst") query.set("sort", wanted.sort);
  if (wanted.down) query.set("down", "1");
  window.history.replaceState(null, "", query.size ? `?${query}` : window.location.pathname);
}
