/**
 * Have Airflow run a Dag, with the reader's own login and rights, and tell what became of the run.
 * @module
 */
import * as api from "./api.js";
import { announce, h } from "./dom.js";
import { airflowLink } from "./links.js";

const ASK_MS = 1_000;
const PATIENCE = 60; // how often a run is asked for before the reader is sent to it
const WORDS = {
  success: "The run was successful. ",
  failed: "The run has failed. The logs of its tasks say why. ",
  running: "The run is running. ",
  other: "Airflow has accepted the run and has not started it yet. ",
  error: "Airflow has not accepted the run: ",
};

const asked = new Map(); // key of a button -> as of `send`

/**
 * @param {string} dag
 * @param {Object} conf
 * @param {(told: *) => void} change Called with each news: "sending", an Error, or { run, state }.
 */
export async function send(dag, conf, change) {
  change("sending");
  try {
    const { dag_run_id: run } = await api.trigger(dag, conf);
    for (let times = 0; times < PATIENCE; times += 1) {
      const { state } = await api.run(dag, run);
      change({ run, state });
      if (state === "success" || state === "failed") return;
      await new Promise((done) => setTimeout(done, ASK_MS));
    }
  } catch (problem) {
    change(problem);
  }
}

/** @param {*} what As of `send`; null for nothing. @param {string} dag @param {Object<string, string>} [words] By state. */
export function told(what, dag, words = WORDS) {
  if (!what) return null;
  if (what === "sending") return h("p", { class: "dim", role: "status" }, "Asking Airflow…");
  if (what instanceof Error) return h("p", { class: "over", role: "alert" }, words.error, what.message);
  const text = words[what.state] ?? words.other;
  announce(text);
  const url = `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(what.run)}`;
  return h("p", { class: what.state === "failed" ? "over" : null, role: "status" }, text, airflowLink(url, "This run"));
}

/**
 * A button that has Airflow run a Dag at once.
 * @param {string} label
 * @param {string} key Of the button on the page.
 * @param {{dag_id: string, conf: Object}} trigger
 * @param {() => void} again Draw the part with the button anew.
 * @param {() => void} refresh Ask the ledger anew.
 */
export function triggerButton(label, key, { dag_id: dag, conf }, again, refresh) {
  const change = (news) => {
    asked.set(key, news);
    again();
  };
  const what = asked.get(key) ?? null;
  const isBusy = what === "sending" || (what && ["queued", "running"].includes(what.state));
  const press = () => send(dag, conf, change).then(refresh);
  return [h("button", { type: "button", "data-key": key, disabled: Boolean(isBusy), onclick: press }, label), told(what, dag)];
}
