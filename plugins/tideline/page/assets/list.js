/**
 * All streams: the worst first, sorted by any column, filtered, searched.
 * @module
 */
import { dagProblem, lookAtDags, withDag } from "./airflow.js";
import * as api from "./api.js";
import { announce, h, rows, update } from "./dom.js";
import { count, plural } from "./format.js";
import { COLUMNS } from "./list_columns.js";
import { dagNotice, errorNotice, manyLooks, showNotices } from "./notices.js";
import { keepFresh } from "./refresh.js";
import { STATES, needsSomebody, rank, stateOf } from "./states.js";
import { compare, headRow, row, table, turning } from "./table.js";
import { showTop, showAsked } from "./top.js";

const MEASURED = "tideline-list";
const DOWN_FIRST = ["lag", "oldest", "landed", "days", "quarantine", "incidents"];

const PAGE = 100; // rows
const NEEDS = "needs"; // a filter beside the states
const SAVED = "tideline.filter"; // where the browser keeps whether it was the last one

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
    fleets: h("div", { class: "chips fleets", role: "group", "aria-label": "Filter by fleet" }),
    found: h("span", { class: "dim found" }),
    box: h("div", { class: "scrollbox", hidden: true }, made.table),
    pages: h("nav", { class: "paging", "aria-label": "Pages of streams", hidden: true }),
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
    parts.fleets,
    parts.box,
    parts.pages,
    parts.empty,
  );
}

async function load() {
  try {
    lookAtDags(show);
    const answer = await api.streams();
    seen.answer = answer.streams;
    seen.at = new Date().toISOString();
    show();
    showAsked(seen.at, answer.refreshing);
    return answer.refreshing;
  } catch (problem) {
    if (problem.status === undefined) throw problem;
    showNotices(errorNotice(problem, seen.at));
    if (!seen.streams) update(parts.empty);
    return false;
  }
}

/** Draw what both have answered: the page's API, and Airflow. */
function show() {
  if (!seen.answer) return;
  const streams = seen.answer.map(withDag);
  tellChanges(seen.streams, streams);
  seen.streams = streams;
  showNotices(manyLooks(streams, "ledger", "The ledger"), manyLooks(streams, "brokers", "The brokers"), dagNotice(dagProblem()));
  draw();
}

function tellChanges(before, now) {
  if (!before) return;
  const had = new Map(before.map((one) => [one.stream, stateOf(one)]));
  const changed = now.filter((one) => had.has(one.stream) && had.get(one.stream) !== stateOf(one));
  if (changed.length > 3) announce(`${changed.length} streams have changed their state`);
  else if (changed.length) announce(changed.map((one) => `${one.stream}: ${STATES[stateOf(one)].label}`).join(". "));
}

function want(change) {
  Object.assign(wanted, { first: 0 }, change);
  writeAddress();
  if (!seen.streams) return;
  draw();
  announce(parts.found.textContent);
}

function draw() {
  const started = performance.now();
  const found = seen.streams.filter(fits);
  const matching = found.filter((one) => !wanted.fleet || fleetOf(one) === wanted.fleet);
  const isWanted = (one) => !wanted.state || (wanted.state === NEEDS ? needsSomebody(one) : stateOf(one) === wanted.state);
  const shown = matching.filter(isWanted).sort(order);
  wanted.first = Math.min(wanted.first, Math.max(0, Math.floor((shown.length - 1) / PAGE) * PAGE));
  update(parts.chips, chips(matching));
  update(parts.fleets, fleets(found));
  const sort = wanted.sort === "worst" ? { by: "state", down: false } : { by: wanted.sort, down: wanted.down };
  update(parts.head, headRow(COLUMNS, sort, onSort));
  rows(parts.body, shown.slice(wanted.first, wanted.first + PAGE), (one) => one.stream, stamp, (one) => row(COLUMNS, one));
  const all = plural(seen.streams.length, "stream");
  update(parts.found, shown.length === seen.streams.length ? all : `${count(shown.length)} of ${all}`);
  parts.box.hidden = !shown.length;
  parts.pages.hidden = shown.length <= PAGE;
  update(parts.pages, turning(wanted.first, PAGE, Math.min(wanted.first + PAGE, shown.length), shown.length, "stream", turn));
  update(parts.empty, shown.length ? null : nothing());
  if (performance.getEntriesByName(MEASURED).length > 50) performance.clearMeasures(MEASURED);
  performance.measure(MEASURED, { start: started });
}

function turn(first) {
  want({ first });
  window.scrollTo(0, 0);
}

/** What a row shows; when its ledger and brokers were asked is shown only while they do not answer. */
function stamp({ ledger, brokers, ...one }) {
  return JSON.stringify([one, ledger.problem && ledger, brokers.problem && brokers]);
}

function nothing() {
  if (seen.streams.length) {
    return h("p", {}, wanted.state === NEEDS && !wanted.search ? "No stream needs you. " : "No stream matches. ", h("button", { type: "button", class: "plain", onclick: clear }, "Show all"));
  }
  return [
    h("p", {}, h("strong", {}, "No streams.")),
    h("p", { class: "dim" }, "There is no stream file yet, or you have no right to read a stream's Dag. ",
      "A stream is one file in the folder of streams: topics in, a table out."),
  ];
}

function clear() {
  document.getElementById("search").value = "";
  want({ search: "", state: "", fleet: "" });
}

function fits(one) {
  const text = wanted.search.trim().toLowerCase();
  return !text || `${one.stream}\n${one.topics}\n${one.table}\n${one.fleet ?? ""}`.toLowerCase().includes(text);
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
    chip(NEEDS, "needs me", matching.filter(needsSomebody).length, "all", ""),
    ...Object.entries(STATES).filter(([state]) => counts.has(state) || state === wanted.state)
      .map(([state, { label, tone, mark }]) => chip(state, label, counts.get(state) ?? 0, tone, mark)),
  ];
}

/** Streams with a file of their own go by a name that no fleet can have. */
const fleetOf = (one) => one.fleet ?? "/";

/** One chip a fleet, the one in the worst state first, with the state's mark; none where there is no fleet. */
function fleets(found) {
  const groups = new Map();
  for (const one of found) {
    const known = groups.get(fleetOf(one)) ?? { number: 0, worst: stateOf(one), wrong: 0 };
    if (rank(stateOf(one)) < rank(known.worst)) known.worst = stateOf(one);
    if (needsSomebody(one)) known.wrong += 1;
    known.number += 1;
    groups.set(fleetOf(one), known);
  }
  if (![...groups.keys()].some((name) => name !== "/")) return null;
  const chip = ([name, { number, worst, wrong }]) => {
    const { tone, mark, label } = STATES[worst];
    return h("button", { type: "button", class: `chip ${tone}`, "data-key": `fleet ${name}`, "aria-pressed": String(wanted.fleet === name),
      title: wrong ? `${count(wrong)} need somebody; the worst: ${label}` : label,
      onclick: () => want({ fleet: wanted.fleet === name ? "" : name }) },
      mark && h("span", { class: "mark", "aria-hidden": "true" }, mark), name === "/" ? "in no fleet" : name, " ",
      h("b", {}, wrong ? `${count(wrong)} of ${count(number)}` : count(number)));
  };
  return [...groups].sort(([one, a], [other, b]) => rank(a.worst) - rank(b.worst) || one.localeCompare(other)).map(chip);
}

function readAddress() {
  const query = new URLSearchParams(window.location.search);
  const state = query.get("state") ?? (query.size ? "" : saved());
  const sort = query.get("sort");
  return {
    search: query.get("search") ?? "",
    state: state in STATES || state === NEEDS ? state : "",
    first: (Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1) - 1) * PAGE,
    fleet: query.get("fleet") ?? "",
    sort: COLUMNS.some(({ id }) => id === sort) ? sort : "worst",
    down: query.get("down") === "1",
  };
}

function writeAddress() {
  const query = new URLSearchParams();
  if (wanted.search) query.set("search", wanted.search);
  if (wanted.state) query.set("state", wanted.state);
  if (wanted.fleet) query.set("fleet", wanted.fleet);
  if (wanted.sort !== "worst") query.set("sort", wanted.sort);
  if (wanted.down) query.set("down", "1");
  if (wanted.first) query.set("page", String(wanted.first / PAGE + 1));
  save(wanted.state === NEEDS ? NEEDS : "");
  window.history.replaceState(null, "", query.size ? `?${query}` : window.location.pathname);
}

/** Whoever is on call opens the list as they left it: only what needs somebody, or all. */
function saved() {
  try {
    return window.localStorage.getItem(SAVED) ?? "";
  } catch {
    return ""; // the browser keeps nothing
  }
}

function save(filter) {
  try {
    window.localStorage.setItem(SAVED, filter);
  } catch {
    // the address has it
  }
}
