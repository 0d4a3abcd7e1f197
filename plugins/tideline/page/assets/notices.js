/**
 * What keeps the page from knowing: said once, above everything, with the age of what is shown.
 * @module
 */
import { h, update } from "./dom.js";
import { plural, time } from "./format.js";
import { loginAddress } from "./links.js";

/**
 * Show these and no others.
 * @param {...(Node|null|false)} notices
 */
export function showNotices(...notices) {
  update(document.getElementById("notices"), notices);
}

/** @param {string} tone @param {string} title @param {...*} text */
export function notice(tone, title, ...text) {
  return h("div", { class: `notice ${tone}` }, h("strong", {}, title), " ", text);
}

/**
 * @param {Object} look Look: asked_at, problem.
 * @param {string} title Who does not answer.
 * @param {string} shown What is shown meanwhile.
 */
export function lookNotice(look, title, shown) {
  if (!look?.problem) return null;
  const known = look.asked_at ? [`${shown} was known `, time(look.asked_at), ". "] : ["No answer so far. "];
  return notice("warn", `${title}.`, known, h("span", { class: "why" }, look.problem));
}

/**
 * What speaks against the brokers' answer; detection says what it means.
 * @param {Object|null} status StreamStatus
 */
export function doubtNotice(status) {
  if (!status?.problem) return null;
  const lag = status.is_measured ? null : "The lag is what the last run saw. ";
  return notice("warn", "Brokers and ledger disagree.", lag, "The next run will check. ", h("span", { class: "why" }, status.problem));
}

/**
 * Why an answer of the API is missing, and what to do.
 * @param {Error} problem
 * @param {string|null} since When it answered last, as ISO.
 */
export function errorNotice(problem, since) {
  const shown = since ? ["The page shows what was known ", time(since), "."] : null;
  if (problem.status === 401) {
    const login = h("a", { href: loginAddress(), target: "_top" }, "Log in to Airflow");
    return notice("bad", "You are not logged in.", login, since ? [" again. ", shown] : ".");
  }
  if (problem.status === 403) {
    const why = h("span", { class: "why" }, problem.message);
    return notice("bad", "You have no right to see this.", "Ask for the right to read this Dag. ", why);
  }
  if (problem.status === 404) {
    const all = h("a", { href: "./" }, "All streams");
    return notice("bad", "There is no such stream, or you have no right to read it.", all, ". ", h("span", { class: "why" }, problem.message));
  }
  if (problem.status === 422) return notice("bad", "This input is not valid.", h("span", { class: "why" }, problem.message));
  if (problem.status === 0) return notice("bad", "No answer.", problem.message, ". ", shown);
  return notice("bad", "This cannot be shown now.", h("span", { class: "why" }, problem.message), " ", shown);
}

/** @param {Error|null} problem Why Airflow does not tell. */
export function dagNotice(problem) {
  return problem && notice("warn", "Airflow does not say which Dags are paused and whose last run has failed.", h("span", { class: "why" }, problem.message));
}

/** @param {Object[]} streams ListedStream @param {"ledger"|"brokers"} whose @param {string} what */
export function manyLooks(streams, whose, what) {
  const away = streams.filter((one) => one[whose].problem);
  if (!away.length) return null;
  const oldest = away.map((one) => one[whose].asked_at).filter(Boolean).sort()[0];
  const why = [...new Set(away.map((one) => one[whose].problem))];
  const never = away.length - away.filter((one) => one[whose].asked_at).length;
  return notice(
    "warn",
    `${what} ${whose === "ledger" ? "does" : "do"} not answer for ${plural(away.length, "stream")}.`,
    oldest && ["What the page shows about them is up to ", time(oldest, "age"), " old. "],
    never > 0 && `Nothing is known yet about ${plural(never, "stream")}. `,
    h("span", { class: "why" }, why[0], why.length > 1 && ` (and ${plural(why.length - 1, "other reason")})`),
  );
}
