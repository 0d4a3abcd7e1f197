/**
 * Partitions: logs, positions, lag and headroom, some at a time; the skew of all of them in a line.
 * @module
 */
import * as api from "./api.js";
import { bar, leftBar } from "./bars.js";
import { buildCoverage } from "./coverage.js";
import { h, rows, update } from "./dom.js";
import { NOTHING, count, short } from "./format.js";
import { reveal } from "./sections.js";
import { headRow, row, table, turning } from "./table.js";

const COUNTS = [25, 50, 100, 200];
const LAG_BAR = { largest: 1 }; // of the whole stream; bars are relative to it

const COLUMNS = [
  { id: "partition", label: "Partition", sortable: true, cell: nameCell },
  { id: "start", label: "Log start", number: true, hint: "the oldest readable offset", cell: (one) => count(one.log_start_offset) },
  { id: "next", label: "Next", number: true, hint: "the first offset not yet ingested", cell: ({ next_offset }) => count(next_offset) },
  { id: "end", label: "End", number: true, hint: "exclusive", cell: ({ end_offset }) => count(end_offset) },
  { id: "lag", label: "Lag", sortable: true, hint: "the bar is relative to the largest of the stream", cell: lagCell },
  { id: "headroom", label: "Headroom", sortable: true, hint: "time until retention reaches the next offset", cell: headroomCell },
  { id: "generations", label: "Logs", number: true, hint: "generations and topic ids", cell: ({ logs }) => count(logs.length) },
];

function nameCell({ topic, partition }) {
  return h("span", { class: "name" }, `${topic ?? "(no name)"}-${partition}`);
}

function lagCell({ lag }) {
  if (lag === null) return NOTHING;
  return h("span", { class: "gauge" }, bar(lag / LAG_BAR.largest, "lag"), h("span", { class: "text" }, count(lag)));
}

function headroomCell({ headroom }) {
  return leftBar(headroom?.seconds_left, headroom?.retention_ms > 0 ? headroom.retention_ms / 1000 : null);
}

/**
 * The table of partitions and, above it, the coverage of the same ones.
 * @param {Element} body
 * @param {Element} picture Where the coverage goes.
 * @param {string} stream
 * @param {(topic: string, partition: number, offset: number) => void} onExplain
 * @returns {{load: () => Promise<Object>, show: (answer: Object) => void}}
 */
export function buildPartitions(body, picture, stream, onExplain) {
  const query = { sort: "lag", first: 0, count: 50, topic: "" };
  const topics = new Set();
  const made = table(`Partitions of ${stream}`, COLUMNS, "cards partitions");
  const skew = h("div", { class: "skew" });
  const paging = h("nav", { class: "paging", "aria-label": "Pages of partitions" });
  const coverage = buildCoverage(picture, onExplain);
  let latest = null;
  body.append(skew, h("div", { class: "scrollbox" }, made.table), paging);

  /** The newest answer to what is asked for now: a reader may turn pages while an answer is on its way. */
  async function load() {
    const asked = JSON.stringify(query);
    const answer = await api.partitions(stream, { ...query });
    return asked === JSON.stringify(query) || !latest ? answer : latest;
  }

  async function want(change) {
    Object.assign(query, { first: 0 }, change);
    try {
      show(await load());
    } catch (problem) {
      if (problem.status === undefined) throw problem;
      update(paging, h("span", { class: "over" }, problem.message));
    }
  }

  function show(answer) {
    latest = answer;
    for (const { topic } of answer.partitions) if (topic) topics.add(topic);
    LAG_BAR.largest = Math.max(1, answer.skew?.largest ?? 0, ...answer.partitions.map(({ lag }) => lag ?? 0));
    update(skew, skewLine(answer.skew));
    update(made.head, headRow(COLUMNS, { by: query.sort, down: query.sort === "lag" }, (sort) => want({ sort })));
    const stamp = ({ logs, ...one }) => JSON.stringify([LAG_BAR.largest, one, logs.length]);
    rows(made.body, answer.partitions, ({ topic, partition }) => `${topic} ${partition}`, stamp, (one) => row(COLUMNS, one));
    update(paging, pages(answer, query, topics, want));
    reveal(picture);
    coverage.show(answer.partitions);
  }

  return { load, show };
}

function skewLine(skew) {
  if (!skew) return h("span", { class: "dim" }, "The lag of its partitions is unknown.");
  const one = (name, value, share) =>
    h("div", { class: "part" }, h("span", { class: "dim" }, name), h("b", { title: count(value) }, short(value)), bar(share, "lag"));
  const largest = Math.max(1, skew.largest);
  const even = skew.largest === 0 ? "nothing is unread" : skew.largest <= 2 * Math.max(1, skew.median) ? "spread evenly" :
    `the largest has ${Math.round((100 * skew.largest) / Math.max(1, skew.total))} % of it`;
  return [
    h("span", { class: "part" }, h("span", { class: "dim" }, "lag of all partitions"),
      h("b", { title: count(skew.total) }, short(skew.total)), h("span", {}, even)),
    one("largest", skew.largest, skew.largest / largest),
    one("99th percentile", skew.p99, skew.p99 / largest),
    one("median", skew.median, skew.median / largest),
  ];
}

function pages({ total, partitions }, query, topics, want) {
  const choose = (id, label, values, now, change) =>
    h("label", { class: "choose", "data-key": id }, label, " ",
      h("select", { onchange: (event) => want(change(event.target.value)) },
        values.map(([value, text]) => h("option", { value, selected: String(value) === String(now) }, text))));
  return [
    turning(query.first, query.count, query.first + partitions.length, total, "partition", (first) => want({ first })),
    total > COUNTS[0] && choose("count", "at a time", twice(COUNTS), query.count, (count) => ({ count: Number(count) })),
    topics.size > 1 && choose("topic", "topic", [["", "all"], ...twice([...topics].sort())], query.topic, (topic) => ({ topic })),
  ];
}

/** Values and their texts, which are the same. */
const twice = (values) => values.map((value) => [value, String(value)]);
