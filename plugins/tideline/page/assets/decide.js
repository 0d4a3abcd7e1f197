/**
 * Decide about an incident where no run waits with a form: Airflow is asked for a run of the Dag that
 * records it, with the reader's own login and rights.
 * @module
 */
import { h } from "./dom.js";
import { plural } from "./format.js";
import { mostAtStake } from "./stakes.js";
import { airflowLink } from "./links.js";
import { send, told } from "./trigger.js";

const DAG = "tideline_resolve";
const LOSES = "accept_loss";

const drafts = new Map(); // incident id -> { choice, told }; told as of `send`

/** @param {Object} one Incident @param {Object} page StreamPage @returns {boolean} Whether its choices have buttons. */
export const isChosenHere = (one, page) => page.actions.some(({ incident, choices }) => incident === one.id && choices.length > 0);

/**
 * @param {Object} one Incident, open and undecided.
 * @param {Object} page StreamPage
 * @param {() => void} again Draw the incidents anew.
 * @param {() => void} refresh Ask the ledger anew.
 */
export function answerForm(one, page, again, refresh) {
  const way = page.actions.find(({ incident }) => incident === one.id);
  if (!way) return null;
  if (!way.choices.length) return h("p", { class: "answerway" }, airflowLink(way.url, "Answer in Airflow's form"));
  const draft = drafts.get(one.id) ?? { choice: null, told: null };
  const change = (part) => {
    drafts.set(one.id, { ...draft, ...part });
    again();
  };
  const send = (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const incident = [one, ...(fields.has("alike") ? alike(one, page) : [])].map(({ id }) => id).join(",");
    record({ stream: page.stream, incident, choice: draft.choice, reason: fields.get("reason").trim() }, change, refresh);
  };
  return h("form", { class: "decide", "data-key": `decide ${one.id}`, "aria-label": `Decide about ${one.id}`, onsubmit: send },
    h("div", { class: "ways" }, way.choices.map(({ choice, meaning }) => button(one, choice, meaning, draft, change))),
    draft.choice && reason(one, page, draft),
    told(draft.told, DAG, WORDS));
}

function button(one, choice, meaning, draft, change) {
  const choose = () => {
    change({ choice, told: null });
    document.getElementById(`reason-${one.id}`).focus();
  };
  return h("div", { class: "way", "data-key": choice },
    h("button", { type: "button", class: choice === LOSES ? "danger" : null, "aria-pressed": String(draft.choice === choice), disabled: draft.told === "sending", onclick: choose }, choice),
    h("span", { class: "dim" }, meaning));
}

function reason(one, page, draft) {
  const id = `reason-${one.id}`;
  const others = alike(one, page).length;
  return h("div", { class: "reason", "data-key": "reason" },
    h("div", { class: "field" },
      h("label", { for: id }, "Reason (kept in the ledger)"),
      h("input", { id, name: "reason", required: true, maxlength: 2000, pattern: ".*\\S.*", autocomplete: "off" })),
    others > 0 && h("label", { class: "alike" }, h("input", { type: "checkbox", name: "alike" }), `also decide ${plural(others, "other incident")} of this class in ${one.topic ?? "the stream"}`),
    h("button", { type: "submit", class: draft.choice === LOSES ? "main danger" : "main", disabled: draft.told === "sending" }, asked(one, draft.choice)));
}

/** What the button says: a decision that gives records up says how many. */
function asked(one, choice) {
  if (choice !== LOSES) return `Record ${choice}`;
  const most = mostAtStake(one);
  return most ? `Accept the loss of at most ${plural(most, "record")}` : "Accept the loss";
}

function alike(one, page) {
  return page.incidents.filter((other) => other.id !== one.id && other.class === one.class && other.topic === one.topic && isChosenHere(other, page));
}

function record(form, change, refresh) {
  return send(DAG, form, (told) => change({ choice: form.choice, told })).then(refresh);
}

const WORDS = {
  success: "Recorded. The next run carries the decision out. ",
  failed: "The decision was not recorded. The run's log says why. ",
  other: "Airflow has accepted the run. The decision is recorded when the run ends. ",
  error: "The decision was not recorded: ",
};
