/**
 * One stream: what, why, what now.
 * @module
 */
import * as api from "./api.js";
import { showActions } from "./actions.js";
import { lookAtDag } from "./airflow.js";
import { announce, h, update } from "./dom.js";
import { buildExplain } from "./explain.js";
import { showFacts, showHeadline } from "./facts.js";
import { showClosed, showOpen } from "./incidents.js";
import { doubtNotice, errorNotice, lookNotice, notice, showNotices } from "./notices.js";
import { buildPartitions } from "./partitions.js";
import { showPace } from "./pace.js";
import { showQuarantine } from "./quarantine.js";
import { keepFresh } from "./refresh.js";
import { showRuns, withAirflows } from "./runs.js";
import { reveal, section } from "./sections.js";
import { STATES, stateOf } from "./states.js";
import { showAsked, showTop } from "./top.js";

const INCIDENTS = 50;
const SELDOM_MS = 60_000; // for what much is read

/**
 * Show a stream, and keep it fresh.
 * @param {string} name
 */
export function showStream(name) {
  document.title = `${name} · Tideline`;
  const view = { name, runs: 10, page: null, dag: {}, pace: null, asked: new Map(), at: null, ...buildPage() };
  view.partitions = buildPartitions(view.parts.partitions, view.parts.coverage, name, explainAt(view));
  view.explain = buildExplain(view.parts.explain, name);
  const refresh = keepFresh(() => load(view));
  view.refresh = refresh;
  view.moreRuns = () => {
    view.runs += 40;
    refresh();
  };
  showTop(name, refresh);
}

function explainAt(view) {
  return (topic, partition, offset) => view.explain.ask(topic, partition, offset);
}

function buildPage() {
  const headline = h("header", { class: "stream", hidden: true });
  const made = {
    facts: section("facts", "At a glance"),
    open: section("open", "Open incidents"),
    coverage: section("coverage", "Coverage", "what became of each offset, to scale"),
    partitions: section("partitions", "Partitions"),
    pace: section("pace", "Lag and duration by hour", "live runs of the last day"),
    runs: section("runs", "Runs", "the newest first"),
    quarantine: section("quarantine", "In quarantine", "some records of each error class"),
    closed: section("closed", "Closed incidents"),
    actions: section("actions", "Do", "Airflow does it, with your login"),
    explain: section("explain", "Explain a record"),
  };
  const loading = h("p", { class: "loading" }, "Loading…");
  document.getElementById("main").replaceChildren(
    loading,
    headline,
    made.open.whole,
    made.facts.whole,
    h("div", { class: "columns" },
      h("div", { class: "wide" }, made.coverage.whole, made.partitions.whole, made.pace.whole, made.runs.whole, made.quarantine.whole, made.closed.whole),
      h("aside", { "aria-label": "Do and explain" }, made.actions.whole, made.explain.whole)),
  );
  return { loading, headline, parts: Object.fromEntries(Object.entries(made).map(([id, { body }]) => [id, body])) };
}

async function load(view) {
  // These wait for the ledger's history, which may take long: what is known is shown before.
  const one = api.stream(view.name);
  const airflow = one.then(({ dag_id: dag }) => lookAtDag(dag, view.runs));
  const history = Promise.allSettled([api.runs(view.name, view.runs), api.incidents(view.name, INCIDENTS), airflow, seldom(view, api.pace)]);
  const [page, partitions] = await Promise.allSettled([one, view.partitions.load()]);
  view.loading.hidden = true;
  if (page.status === "fulfilled") showPage(view, page.value);
  tellProblems(view, page);
  if (view.page) within(view.parts.partitions, partitions, view.partitions.show);
  const [runs, incidents, dag, pace] = await history;
  for (const { status, reason } of [page, partitions, runs, incidents]) {
    if (status === "rejected" && reason.status === undefined) console.error(reason);
  }
  if (!view.page) return false;
  view.dag = dag.value ?? {};
  view.pace = pace.value ?? view.pace;
  if (page.status === "fulfilled") showPage(view, page.value);
  const known = view.dag.runs ?? null;
  const all = incidents.value?.incidents ?? view.page.incidents;
  within(view.parts.runs, runs, (value) => showRuns(view.parts.runs, withAirflows(value, known, all, view.page.dag_id), view.page, view.moreRuns));
  within(view.parts.pace, pace, (value) => {
    showPace(view.parts.pace, value);
    reveal(view.parts.pace, value.hours.length > 1);
  });
  within(view.parts.closed, incidents, (value) => {
    showClosed(view.parts.closed, value.incidents.filter(({ closed_at }) => closed_at), value.more, view.page);
    reveal(view.parts.closed, value.incidents.some(({ closed_at }) => closed_at));
  });
  await loadQuarantine(view);
  return view.page.refreshing || (partitions.value?.refreshing ?? false);
}

/** The last answer for a minute; one that failed is asked for again. */
function seldom(view, ask) {
  const known = view.asked.get(ask);
  if (known && Date.now() - known.at < SELDOM_MS) return known.answer;
  const answer = ask(view.name);
  view.asked.set(ask, { at: Date.now(), answer });
  answer.catch(() => view.asked.delete(ask));
  return answer;
}

async function loadQuarantine(view) {
  if (!view.page.status?.in_quarantine) return reveal(view.parts.quarantine, false);
  const [held] = await Promise.allSettled([seldom(view, api.quarantine)]);
  return within(view.parts.quarantine, held, (value) => showQuarantine(view.parts.quarantine, value));
}

function showPage(view, answer) {
  const { paused = null, failed = null, error = null } = view.dag;
  const page = { ...answer, pace: view.pace, paused, failed: answer.dag_id === answer.stream ? failed : null, error };
  const before = view.page && stateOf(view.page);
  if (before && before !== stateOf(page)) announce(`${page.stream}: ${STATES[stateOf(page)].label}`);
  view.page = page;
  view.at = new Date().toISOString();
  showHeadline(view.headline, page);
  view.headline.hidden = false;
  showFacts(view.parts.facts, page);
  reveal(view.parts.facts);
  showOpen(view.parts.open, page, view.refresh);
  reveal(view.parts.open, page.incidents.length > 0);
  showActions(view.parts.actions, page.actions, view.refresh);
  reveal(view.parts.actions, page.actions.length > 0);
  view.explain.offer(page);
  reveal(view.parts.explain);
  showAsked(view.at, page.refreshing);
}

function tellProblems(view, page) {
  const failed = page.status === "rejected" && errorNotice(page.reason, view.at);
  const shown = view.page;
  showNotices(
    failed,
    shown?.warning && notice("warn", "Two files.", h("span", { class: "why" }, shown.warning)),
    shown && lookNotice(shown.ledger, "The ledger does not answer", "What the page shows"),
    shown && lookNotice(shown.brokers, "The brokers do not answer", "What the page shows about logs, lag and headroom"),
    shown && shown.brokers.asked_at && doubtNotice(shown.status),
  );
}

/** One part whose answer is missing says so in its place; what it showed stays. */
function within(body, answer, show) {
  const old = body.querySelector(":scope > .notice");
  if (answer.status === "fulfilled") {
    old?.remove();
    reveal(body);
    show(answer.value);
    return;
  }
  const told = errorNotice(answer.reason, null);
  if (old) update(old, [...told.childNodes]);
  else body.prepend(told);
  reveal(body);
}
