/**
 * Runs: what each read, how many rows it landed, and how long its steps took.
 * @module
 */
import { errorOf, logPage } from "./airflow.js";
import * as api from "./api.js";
import { bar } from "./bars.js";
import { h, rows, update } from "./dom.js";
import { NOTHING, count, duration, range, runName, time } from "./format.js";
import { airflowLink } from "./links.js";
import { badge } from "./states.js";
import { row, table } from "./table.js";

const STATUSES = {
  halted: ["halted", "bad", "■"],
  failed: ["failed", "bad", "×"],
  running: ["running", "info", "▶"],
  queued: ["queued", "dim", "○"],
  proposed: ["planning", "dim", "○"],
  planned: ["planned", "warn", "▲"],
  done: ["done", "good", "●"],
  nothing_to_do: ["nothing to do", "dim", "○"],
  superseded: ["superseded", "dim", "×"],
};
const RANGES_SHOWN = 20;

const opened = new Map(); // run id -> what Airflow said of its steps: null while asked, an Error, or tasks
let made = null;
let last = null;

const COLUMNS = [
  { id: "named", label: "Run", cell: nameCell },
  { id: "status", label: "Status", cell: statusCell },
  { id: "lane", label: "Lane", cell: ({ lane }) => (lane === "live" ? "live" : badge(lane, "info")) },
  { id: "offsets", label: "Offsets", number: true, cell: ({ offsets }) => count(offsets) },
  { id: "rows", label: "Rows", number: true, cell: ({ rows }) => count(rows) },
  { id: "version", label: "Table version", number: true, cell: ({ table_version }) => count(table_version) },
  { id: "at", label: "Changed", cell: ({ updated_at }) => time(updated_at) },
];

function statusCell({ status, why, finishes }) {
  const [text, tone, mark] = STATUSES[status] ?? [status, "dim", "?"];
  return [badge(text, tone, mark), why && h("span", { class: "sub" }, why), finishes && h("span", { class: "sub" }, status === "done" ? "finished" : "finishes", " the plan of ", runName(finishes))];
}

/**
 * The ledger's runs with what Airflow adds: those that failed or halted, of which the ledger may keep no record.
 * @param {Object} answer RunPage
 * @param {Object[]|null} known Airflow's DagRuns, the newest first; null where Airflow does not tell.
 * @param {Object[]} incidents Incident: open and closed ones.
 * @param {string} dag
 * @returns {Object} RunPage
 */
export function withAirflows(answer, known, incidents, dag) {
  const states = new Map((known ?? []).map((run) => [run.dag_run_id, run]));
  const ours = answer.runs.map((run) => ({ ...judged(run, states.get(run.run_id)), waited: waited(states.get(run.run_id)) }));
  const oldest = answer.more ? (ours.at(-1)?.updated_at ?? "") : "";
  const recorded = new Set(ours.map(({ run_id }) => run_id));
  const theirs = [...states.values()]
    .filter(({ dag_run_id, state, run_after }) => !recorded.has(dag_run_id) && state !== "success" && run_after >= oldest)
    .map((run) => unrecorded(run, incidents, dag));
  const at = ({ updated_at }) => -Date.parse(updated_at);
  return { ...answer, untold: known === null, runs: theirs.length ? [...ours, ...theirs].sort((one, other) => at(one) - at(other)) : ours };
}

function judged(run, airflows) {
  if (run.status !== "proposed" && run.status !== "planned") return run;
  if (run.incidents.length) return { ...run, status: "halted", why: `at ${few(run.incidents)}` };
  return airflows?.state === "failed" ? { ...run, status: "failed", why: "see its tasks" } : run;
}

/** Seconds from when Airflow wanted a run to when it had its slot; null where it does not tell. */
function waited(airflows) {
  if (!airflows?.queued_at || !airflows.start_date) return null;
  return Math.max(0, Date.parse(airflows.start_date) - Date.parse(airflows.queued_at)) / 1000;
}

function unrecorded({ dag_run_id, state, end_date, run_after, run_type, triggering_user_name: by }, incidents, dag) {
  const at = end_date ?? run_after;
  const open = incidents.filter(({ opened_at, closed_at }) => opened_at <= at && (closed_at === null || closed_at >= at));
  const halted = state === "failed" && open.length > 0;
  const own = open.filter(({ run_id }) => run_id === dag_run_id).map(({ id }) => id);
  return {
    run_id: dag_run_id, status: halted ? "halted" : state, why: halted ? (own.length ? `at ${few(own)}` : `while ${few(open.map(({ id }) => id))} was open`) : state === "failed" ? "see its tasks" : null,
    lane: run_type === "backfill" ? "backfill" : "live", plan_id: null, offsets: null, rows: null, table_version: null, finishes: null, by: by ?? null,
    ranges: [], updated_at: at, reason: null, url: `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(dag_run_id)}`,
  };
}

const few = (ids) => (ids.length > 3 ? `${ids.slice(0, 3).join(", ")} and ${ids.length - 3} more` : ids.join(", "));

/**
 * @param {Element} body
 * @param {Object} answer RunPage
 * @param {Object} page StreamPage
 * @param {() => void} onMore
 */
export function showRuns(body, answer, page, onMore) {
  last = { body, answer, page, onMore };
  if (!made) {
    made = { ...table(`Runs of ${page.stream}`, COLUMNS, "cards runs"), foot: h("div", { class: "foot" }) };
    body.append(h("div", { class: "scrollbox" }, made.table), made.foot);
  }
  const lines = answer.runs.flatMap((run) => (opened.has(run.run_id) ? [{ run }, { run, details: true }] : [{ run }]));
  rows(made.body, lines, ({ run, details }) => `${details ? "+" : ""}${run.run_id}`, stamp, build);
  update(made.foot,
    !answer.runs.length && h("p", { class: "dim" }, "No run has left a record yet."),
    answer.untold && h("p", { class: "dim" }, "Airflow does not say which runs have failed."),
    answer.more && h("button", { type: "button", onclick: onMore }, "Show more runs"));
}

function stamp({ run, details }) {
  const steps = opened.get(run.run_id);
  return JSON.stringify([run, opened.has(run.run_id), details && (steps instanceof Error ? steps.message : steps)]);
}

function build({ run, details }) {
  if (!details) return row(COLUMNS, run);
  return h("tr", { class: "details", role: "row" }, h("td", { colspan: COLUMNS.length, role: "cell" }, detailsOf(run)));
}

function nameCell(run) {
  const isOpen = opened.has(run.run_id);
  return h("button", { type: "button", class: "opener", "aria-expanded": String(isOpen), onclick: () => toggle(run) },
    h("span", { class: "arrow", "aria-hidden": "true" }, isOpen ? "▾" : "▸"), runName(run.run_id));
}

function toggle(run) {
  if (opened.delete(run.run_id)) return again();
  opened.set(run.run_id, null);
  if (run.url !== null) ask(run.run_id);
  return again();
}

async function ask(id) {
  try {
    const { dag_id: dag } = last.page;
    const { task_instances: tasks } = await api.tasks(dag, id);
    const told = (task) => (task.state === "failed" ? errorOf(dag, id, task).catch(() => null) : null);
    opened.set(id, await Promise.all(tasks.map(async (task) => ({ ...task, error: await told(task) }))));
  } catch (problem) {
    opened.set(id, problem);
  }
  again();
}

const again = () => showRuns(last.body, last.answer, last.page, last.onMore);

function detailsOf(run) {
  return h("div", { class: "rundetails" },
    h("dl", {},
      h("dt", {}, "Id"), h("dd", { class: "id" }, run.run_id),
      run.reason && [h("dt", {}, "Reason"), h("dd", {}, run.reason)],
      run.by && [h("dt", {}, "By"), h("dd", {}, run.by)],
      run.plan_id && [h("dt", {}, "Plan"), h("dd", { class: "id" }, run.plan_id)],
      typeof run.waited === "number" && [h("dt", {}, "Waited"), h("dd", {}, `${duration(run.waited)} for a slot of Airflow`)],
      run.url && [h("dt", {}, "Airflow"), h("dd", {}, airflowLink(run.url, "this run, its tasks and logs"))]),
    h("div", { class: "halves" },
      h("div", {}, h("h3", {}, "Ranges"), ranges(run.ranges)),
      h("div", {}, h("h3", {}, "Duration by step"), steps(run))));
}

function ranges(list) {
  if (!list.length) return h("p", { class: "dim" }, "none");
  return [
    h("ul", { class: "ranges" }, list.slice(0, RANGES_SHOWN).map((one) => {
      const rows = one.rows === null ? "not verified yet" : `${count(one.rows)} rows`;
      return h("li", {}, h("code", {}, `${one.topic}-${one.partition}`), " ", range(one.start_offset, one.end_offset),
        h("span", { class: "dim" }, ` generation ${one.generation}, ${rows}`));
    })),
    list.length > RANGES_SHOWN && h("p", { class: "dim" }, `and ${count(list.length - RANGES_SHOWN)} more`),
  ];
}

function steps(run) {
  if (run.url === null) return h("p", { class: "dim" }, "Airflow measures steps, and Airflow did not start this run.");
  const known = opened.get(run.run_id);
  if (known === null) return h("p", { class: "dim" }, "Asking Airflow…");
  if (known instanceof Error) return h("p", { class: "dim" }, `Airflow does not answer: ${known.message}`);
  const ordered = [...known].sort((one, other) => String(one.start_date ?? "~").localeCompare(String(other.start_date ?? "~")));
  const longest = Math.max(0.001, ...ordered.map((task) => task.duration ?? 0));
  return h("ul", { class: "steps" }, ordered.map((task) =>
    h("li", {},
      h("span", { class: "step" }, airflowLink(logPage(last.page.dag_id, run.run_id, task), task.task_id)),
      bar((task.duration ?? 0) / longest, task.state === "failed" ? "bad" : "good"),
      h("span", { class: "number" }, task.duration === null ? NOTHING : duration(task.duration)),
      h("span", { class: "dim" }, task.state ?? "not begun", task.try_number > 1 && `, try ${task.try_number}`),
      task.error && h("p", { class: "error over" }, task.error))));
}
