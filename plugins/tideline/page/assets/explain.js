/**
 * What became of one record, in a sentence.
 * @module
 */
import * as api from "./api.js";
import { h, update } from "./dom.js";
import { count } from "./format.js";
import { errorNotice } from "./notices.js";
import { badge } from "./states.js";

const OUTCOMES = {
  landed: ["landed", "good", "●"],
  no_row: ["read, no row", "good", "○"],
  accepted_loss: ["accepted as lost", "dim", "×"],
  erased: ["erased", "dim", "×"],
  at_stake: ["at stake", "bad", "■"],
  in_flight: ["in flight", "warn", "▲"],
  unread: ["unread", "warn", "▲"],
  deleted: ["deleted, never read", "bad", "×"],
  gap: ["gap", "bad", "■"],
  not_followed: ["not followed", "dim", "?"],
};

/**
 * A form that asks about one record.
 * @param {Element} body
 * @param {string} stream
 * @returns {{offer: (page: Object) => void, ask: (topic: string, partition: number, offset: number) => void}}
 */
export function buildExplain(body, stream) {
  const topics = h("datalist", { id: "explain-topics" });
  const field = (id, label, props) => {
    const input = h("input", { id: `explain-${id}`, name: id, required: true, autocomplete: "off", ...props });
    return { input, whole: h("div", { class: "field" }, h("label", { for: `explain-${id}` }, label), input) };
  };
  const number = { inputmode: "numeric", pattern: "[0-9][0-9, ]*", title: "a whole number" };
  const topic = field("topic", "Topic", { list: "explain-topics", spellcheck: "false" });
  const partition = field("partition", "Partition", number);
  const offset = field("offset", "Offset", number);
  const answer = h("div", { class: "answer", "aria-live": "polite" });

  async function submit(event) {
    event?.preventDefault();
    const [place, at] = [digits(partition.input), digits(offset.input)];
    update(answer, h("p", { class: "dim" }, "Asking…"));
    try {
      update(answer, told(await api.explain(stream, topic.input.value.trim(), place, at)));
    } catch (problem) {
      update(answer, errorNotice(problem, null));
    }
  }

  body.append(
    h("form", { onsubmit: submit },
      topics, topic.whole, h("div", { class: "pair" }, partition.whole, offset.whole),
      h("button", { type: "submit", class: "main" }, "Explain")),
    answer,
  );
  return {
    offer: (page) => offer(topics, topic.input, page),
    ask: (name, place, at) => {
      topic.input.value = name;
      partition.input.value = String(place);
      offset.input.value = String(at);
      submit();
      body.scrollIntoView({ block: "nearest" });
    },
  };
}

const digits = (input) => input.value.replace(/[^0-9]/g, "");

function offer(topics, input, page) {
  const names = page.topics.split(",").map((name) => name.trim()).filter((name) => /^[\w.-]+$/.test(name));
  update(topics, names.map((value) => h("option", { value })));
  if (!input.value && names.length === 1 && document.activeElement !== input) input.value = names[0];
}

function told(answer) {
  const [label, tone, mark] = OUTCOMES[answer.outcome] ?? [answer.outcome, "dim", "?"];
  const fact = (name, value) => value !== null && value !== undefined && [h("dt", {}, name), h("dd", {}, value)];
  return [
    h("p", {}, badge(label, tone, mark), " ", h("span", { class: "text" }, answer.text)),
    h("dl", {},
      fact("Record", `${answer.topic}-${answer.partition} @ ${count(answer.offset)}`),
      fact("Run", answer.run_id),
      fact("Table version", answer.table_version === null ? null : count(answer.table_version)),
      fact("Decoded", answer.decoded === null ? null : answer.decoded ? "yes" : "no"),
      fact("Next offset", answer.next_offset === null ? null : count(answer.next_offset)),
      fact("Generation", answer.generation),
      fact("Topic id", answer.topic_id)),
  ];
}
