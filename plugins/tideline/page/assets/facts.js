/**
 * A stream in a few numbers.
 * @module
 */
import { logPage } from "./airflow.js";
import { curve, headroomBar, trend } from "./bars.js";
import { h, update } from "./dom.js";
import { NOTHING, count, duration, middle, plural, runName, short, time } from "./format.js";
import { airflowLink } from "./links.js";
import { lag } from "./list_columns.js";
import { outlook } from "./pace.js";
import { STATES, stateBadge, stateOf } from "./states.js";

/** What the phases of a run are called, in their order; shorter ones than a tenth are left out. */
const PHASES = {
  planning: "planning",
  waiting_for_task: "waiting for its next task",
  waiting_for_spark: "waiting for Spark",
  reading: "reading",
  committing: "committing",
  verifying: "verifying",
};

/**
 * The stream's name, its state, and where its records go.
 * @param {Element} body
 * @param {Object} page StreamPage
 */
export function showHeadline(body, page) {
  const state = stateOf(page);
  update(
    body,
    h("div", { class: "headline" }, h("h1", {}, page.stream), stateBadge(state), h("span", { class: "dim" }, STATES[state].hint, page.paused && state !== "paused" && "; its Dag is paused")),
    h("p", { class: "flow" }, h("code", {}, page.topics), h("span", { "aria-label": "lands in" }, " → "), h("code", {}, page.table)),
  );
}

/**
 * Four facts and whatever is wrong; the others are folded.
 * @param {Element} body
 * @param {Object} page StreamPage
 */
export function showFacts(body, page) {
  const { status } = page;
  const others = allOthers(page);
  const wrong = others.filter(({ isWrong }) => isWrong);
  const folded = others.filter(({ isWrong }) => !isWrong);
  update(
    body,
    h("dl", { class: "facts" },
      fact("Lag", lag(status), outlook(page.pace)),
      fact("Oldest unread", time(status?.oldest_unread_at, "age"), "age of the oldest unread record"),
      fact("Headroom", headroomBar(page), "until retention reaches an unread record"),
      fact("Last landed run", run(status), status?.last_run ? `table version ${count(status.last_landed_version)}` : "none yet"),
      wrong.map(({ shown }) => shown)),
    h("details", { class: "more", "data-key": "more facts" },
      h("summary", {}, plural(folded.length, "more fact")),
      h("dl", { class: "facts" }, folded.map(({ shown }) => shown))),
  );
}

/** Each with whether a reader has to see it at once. */
function allOthers(page) {
  const { status, days } = page;
  const made = [];
  const add = (isThere, isWrong, ...told) => isThere && made.push({ isWrong: Boolean(isWrong), shown: fact(...told) });
  const failed = status ? Object.entries(status.expectations) : [];
  add(page.paused !== null, page.paused, "Dag", airflowLink(`dags/${encodeURIComponent(page.dag_id)}`, page.paused ? over("paused") : "active"), page.paused ? "no run begins" : "in Airflow");
  add(page.failed, true, "Last run", page.failed && failure(page), whyFailed(page));
  add(status?.undecoded != null, status?.undecoded > 0, "Not decoded", count(status?.undecoded), "landed offsets without a typed row");
  add(status?.in_quarantine != null, status?.in_quarantine > 0, "In quarantine", status?.in_quarantine ? h("a", { href: "#quarantine", class: "over" }, count(status.in_quarantine)) : "0", "records without a typed row");
  add(failed.length, failed.some(([, rows]) => rows > 0), "Failed expectations", ...(failed.length ? failures(status.expectations) : []));
  add(status?.names.length, status?.names.some(({ finding }) => finding), "Names", status?.names.length && names(status.names), "in a catalog");
  add(status?.erasures?.length, status?.erasures?.some(({ overdue }) => overdue), "Erasures", status?.erasures?.length && erasures(status.erasures), "by key; until files of older versions are deleted");
  add(status?.current, status?.current?.unproven_since, "Current table", count(status?.current?.rows), status?.current && current(status.current));
  add(true, page.ledger.problem, "Ledger asked", look(page.ledger), page.ledger.problem ? "does not answer now" : "answers");
  add(true, page.brokers.problem, "Brokers asked", look(page.brokers), page.brokers.problem ? "do not answer now" : "at most once in ten seconds");
  add(status?.run_seconds, false, "Duration of the last run", status?.run_seconds && duration(total(status.run_seconds)), status?.run_seconds && phases(status.run_seconds));
  add(days.length > 1, false, "Lag by day", trend(days, "unread", short, Math.max), "the largest lag that a run found");
  add(days.length > 1, false, "Headroom by day", trend(days, "headroom_seconds", duration, Math.min), "the smallest headroom that a run found");
  add(days.length, false, "An average day", curve(days), "filled: rows; line: bytes");
  add(true, false, "Partitions", count(status?.partitions), page.schedule ? `runs: ${page.schedule}` : "no schedule: runs by hand");
  add(true, false, "Cluster", cluster(page.cluster_id), "cluster id");
  add(true, false, "Table", versions(page), "raw table");
  return made;
}

function fact(name, value, note) {
  const parts = [h("div", { class: "value" }, value), h("div", { class: "note" }, note)];
  return h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, parts));
}

const over = (text) => h("span", { class: "over" }, text);

/** The error; where it is an open incident's, which stands above in full, the incident's name. */
function whyFailed({ error, incidents }) {
  const open = incidents.filter(({ id }) => error?.text?.includes(`${id}:`));
  return open.length ? `halted at ${open.map(({ id }) => id).join(", ")}` : (error?.text ?? "its tasks say why");
}

function failure({ dag_id: dag, failed: { dag_run_id: run }, error }) {
  const url = error ? logPage(dag, run, error.task) : `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`;
  return airflowLink(url, over(error ? `failed in ${error.task.task_id}` : "failed"));
}

function run(status) {
  return status?.last_run ? runName(status.last_run) : NOTHING;
}

/** The raw table's name, or what is wrong with one of them. */
function names(known) {
  const wrong = known.filter(({ finding }) => finding);
  if (!wrong.length) return h("span", { title: known.map(({ name }) => name).join("\n") }, known[0].name);
  return h("span", { class: "over", title: wrong.map(({ text }) => text).join("\n") }, `${wrong[0].name}: ${wrong[0].finding}`, wrong.length > 1 && ` and ${count(wrong.length - 1)} more`);
}

/** The one that is through last, or one that is late. */
function erasures(known) {
  const late = known.find(({ overdue }) => overdue);
  const last = late || known[known.length - 1];
  const said = [`${last.erasure_id}: `, last.status === "begun" ? "interrupted, or running" : time(last.due_at)];
  return h("span", late ? { class: "over" } : {}, ...said, known.length > 1 && `, of ${count(known.length)}`);
}

/** Value and note: how many rows of the newest decoding failed each expectation, the worst first. */
function failures(expectations) {
  const known = Object.entries(expectations).sort(([, one], [, other]) => other - one);
  const failed = known.filter(([, rows]) => rows > 0);
  if (!failed.length) return ["none", `of ${count(known.length)}, in the newest decoding`];
  const [[name, rows], ...others] = failed;
  const more = others.slice(0, 4).map(([other, number]) => `${count(number)} ${other}, `);
  return [h("span", { class: "over" }, `${count(rows)} ${name}`), `${more.join("")}rows of the newest decoding`];
}

/** Changes to fold, the last fold, and what no fold can know. */
function current({ deleted, unfolded, folded_at, unproven_since }) {
  const since = unproven_since && [h("span", { class: "over" }, "⚠ unproven"), " for ", time(unproven_since, "age"), ": a loss was accepted"];
  return [`rows; ${count(deleted)} deleted, ${count(unfolded)} changes to fold; folded `, time(folded_at), since && "; ", ...(since || [])];
}

function total(seconds) {
  return Object.keys(PHASES).reduce((sum, name) => sum + seconds[name], 0);
}

function phases(seconds) {
  const shown = Object.entries(PHASES).filter(([name]) => seconds[name] >= 0.1);
  return shown.map(([name, text]) => `${text} ${duration(seconds[name])}`).join(", ");
}

function cluster(id) {
  return id ? h("span", { class: "id", title: id }, middle(id, 22)) : NOTHING;
}

function versions(page) {
  return page.table_version === null ? "not yet made" : `version ${count(page.table_version)}`;
}

function look({ asked_at, problem }) {
  return h("span", { class: problem ? "over" : null, title: problem }, problem && "⚠ ", asked_at ? time(asked_at) : "never answered");
}

