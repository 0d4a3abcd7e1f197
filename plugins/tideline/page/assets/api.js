/**
 * The page's API and Airflow's own, both asked with the cookie of the login. Only `trigger` changes anything.
 * @module
 */

const API = new URL("api/v1/", document.baseURI);
export const AIRFLOW = new URL("../", document.baseURI);
const PATIENCE_MS = 20_000;

/** Why an answer is missing; `status` is 0 where no server answered. */
export class ApiError extends Error {
  constructor(status, error, message) {
    super(message);
    this.status = status;
    this.error = error;
  }
}

async function get(url, more = {}) {
  let answer;
  try {
    answer = await fetch(url, {
      credentials: "same-origin",
      headers: { Accept: "application/json" },
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE_MS),
      ...more,
    });
  } catch (problem) {
    const late = problem.name === "TimeoutError";
    throw new ApiError(0, "NoAnswer", late ? "Airflow's server has not answered in 20 s" : "Airflow's server does not answer");
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  const said = body?.message ?? (typeof body?.detail === "string" ? body.detail : null);
  throw new ApiError(answer.status, body?.error ?? "Unknown", said ?? `the server answered ${answer.status}`);
}

function at(path, query = {}) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query)) if (value !== null && value !== "") url.searchParams.set(name, value);
  return get(url);
}

const part = encodeURIComponent;

/** @returns {Promise<Object>} StreamList */
export const streams = () => at("streams");

/** @param {string} stream @returns {Promise<Object>} StreamPage */
export const stream = (stream) => at(`streams/${part(stream)}`);

/** @param {string} stream @param {Object} query sort, first, count, topic @returns {Promise<Object>} PartitionPage */
export const partitions = (stream, query) => at(`streams/${part(stream)}/partitions`, query);

/** @param {string} stream @param {number} count @returns {Promise<Object>} RunPage */
export const runs = (stream, count) => at(`streams/${part(stream)}/runs`, { count });

/** @param {string} stream @returns {Promise<Object>} Quarantine */
export const quarantine = (stream) => at(`streams/${part(stream)}/quarantine`);

/** @param {string} stream @returns {Promise<Object>} Pace */
export const pace = (stream) => at(`streams/${part(stream)}/pace`);

/** @param {string} stream @param {number} count @returns {Promise<Object>} IncidentPage */
export const incidents = (stream, count) => at(`streams/${part(stream)}/incidents`, { count });

/** @param {string} stream @param {string} topic @param {number} partition @param {number} offset @returns {Promise<Object>} Explained */
export const explain = (stream, topic, partition, offset) =>
  at(`streams/${part(stream)}/records/${part(topic)}/${part(partition)}/${part(offset)}`);

/** What Airflow itself says of a run's tasks. @param {string} dag @param {string} run @returns {Promise<Object>} */
export const tasks = (dag, run) =>
  get(new URL(`api/v2/dags/${part(dag)}/dagRuns/${part(run)}/taskInstances?limit=100`, AIRFLOW));

/** What Airflow itself says of the newest runs. @param {string} dag @param {number} count @returns {Promise<Object>} */
export const airflowRuns = (dag, count) =>
  get(new URL(`api/v2/dags/${part(dag)}/dagRuns?order_by=-run_after&limit=${count}`, AIRFLOW));

/** @param {string} dag @returns {Promise<Object>} What Airflow says of a Dag. */
export const dag = (dag) => get(new URL(`api/v2/dags/${part(dag)}`, AIRFLOW));

/** Ids of the Dags of ours that Airflow finds. @param {Object} query As of Airflow's own list. @returns {Promise<Set<string>>} */
export async function dags(query) {
  const found = new Set();
  for (let asked = 0, total = 1; asked < total; ) {
    const url = new URL("api/v2/dags", AIRFLOW);
    for (const [name, value] of Object.entries({ tags: "tideline", order_by: "dag_id", limit: 100, offset: asked, ...query })) url.searchParams.set(name, value);
    const { dags, total_entries } = await get(url);
    for (const { dag_id } of dags) found.add(dag_id);
    asked += dags.length || total_entries;
    total = total_entries;
  }
  return found;
}

/** @param {string} dag @param {string} run @param {Object} task @returns {Promise<Object>} A task's log, as Airflow keeps it. */
export const log = (dag, run, { task_id: task, map_index: index, try_number: number }) =>
  get(new URL(`api/v2/dags/${part(dag)}/dagRuns/${part(run)}/taskInstances/${part(task)}/logs/${number}?full_content=true&map_index=${index}`, AIRFLOW));

/** @param {string} dag @param {string} run @returns {Promise<Object>} What Airflow says of a run. */
export const run = (dag, run) => get(new URL(`api/v2/dags/${part(dag)}/dagRuns/${part(run)}`, AIRFLOW));

/** Have Airflow run a Dag, as its own form does. @param {string} dag @param {Object} conf @returns {Promise<Object>} */
export const trigger = (dag, conf) =>
  get(new URL(`api/v2/dags/${part(dag)}/dagRuns`, AIRFLOW), {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify({ conf, logical_date: null }),
  });
