/**
 * What only Airflow knows of streams: which Dags are paused, which runs have failed, and why.
 * @module
 */
import * as api from "./api.js";

const EVERY_MS = 30_000;
const LONGEST = 600; // characters of an error

const known = { at: 0, paused: new Set(), failed: new Set(), problem: null };

/**
 * Ask which Dags are paused and which have failed, if nobody has lately.
 * @param {() => void} then Called when there is an answer.
 */
export async function lookAtDags(then) {
  if (Date.now() - known.at < EVERY_MS) return;
  known.at = Date.now();
  try {
    const [paused, failed] = await Promise.all([api.dags({ paused: true }), api.dags({ last_dag_run_state: "failed" })]);
    Object.assign(known, { paused, failed, problem: null });
  } catch (problem) {
    known.problem = problem;
  }
  then();
}

/** Why Airflow does not tell; null if it does. @returns {Error|null} */
export const dagProblem = () => known.problem;

/** A failed run of a fleet's Dag may be another stream's. @param {Object} listed ListedStream @returns {Object} With `paused` and `failed`. */
export function withDag(listed) {
  const { dag_id: dag, stream } = listed;
  return { ...listed, paused: known.paused.has(dag), failed: dag === stream && known.failed.has(dag) };
}

/**
 * Of one stream: whether its Dag is paused, its newest runs, and why the last one failed.
 * @param {string} dag
 * @param {number} count
 * @returns {Promise<Object>} paused, runs: null where Airflow does not tell; failed: the newest run that ended, if it failed; error.
 */
export async function lookAtDag(dag, count) {
  const [about, runs] = await Promise.allSettled([api.dag(dag), api.airflowRuns(dag, count)]);
  const ended = runs.value?.dag_runs.find(({ state }) => state === "success" || state === "failed");
  const failed = ended?.state === "failed" ? ended : null;
  const error = failed && (await whyFailed(dag, failed.dag_run_id).catch(() => null));
  return { paused: about.value?.is_paused ?? null, runs: runs.value?.dag_runs ?? null, failed, error };
}

const errors = new Map(); // run, task and try -> what its log says, or its promise

/** The failed task of a run, and the last error in its log. @returns {Promise<{task: Object, text: string|null}|null>} */
export async function whyFailed(dag, run) {
  const { task_instances: tasks } = await api.tasks(dag, run);
  const task = tasks.find(({ state }) => state === "failed");
  return task ? { task, text: await errorOf(dag, run, task) } : null;
}

/** @param {string} dag @param {string} run @param {Object} task @returns {Promise<string|null>} The last error in a task's log. */
export function errorOf(dag, run, task) {
  const key = [dag, run, task.task_id, task.map_index, task.try_number].join(" ");
  if (!errors.has(key)) errors.set(key, api.log(dag, run, task).then(lastError));
  return errors.get(key);
}

function lastError({ content }) {
  const lines = content.filter((line) => typeof line === "object");
  const last = lines.findLast(({ level }) => level === "error" || level === "critical");
  if (!last) return null;
  const text = last.error_detail?.[0]?.exc_value ?? last.event;
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** Where Airflow shows a task's log. @param {string} dag @param {string} run @param {Object} task @returns {string} */
export function logPage(dag, run, { task_id: task, map_index: index, try_number: number }) {
  const mapped = index >= 0 ? `/mapped/${index}` : "";
  return `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}/tasks/${encodeURIComponent(task)}${mapped}?try_number=${number}`;
}
