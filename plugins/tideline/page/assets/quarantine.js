/**
 * What is in quarantine: rows by error class, and where some of them are. Neither keys nor values.
 * @module
 */
import { h, update } from "./dom.js";
import { count, plural } from "./format.js";
import { row, table } from "./table.js";

const COLUMNS = [
  { id: "record", label: "Record", cell: ({ topic, partition, offset }) => h("code", {}, `${topic}-${partition} @ ${count(offset)}`) },
  { id: "part", label: "Part", cell: ({ part }) => part ?? "row" },
  { id: "class", label: "Error class", cell: (one) => h("code", {}, one.error_class) },
  { id: "error", label: "Error", cell: ({ error }) => error },
];

/** @param {Element} body @param {Object} held Quarantine */
export function showQuarantine(body, { classes, sample, counted, more }) {
  const made = table("Some records in quarantine", COLUMNS, "cards quarantine");
  made.body.append(...sample.map((one) => row(COLUMNS, one)));
  const known = Object.entries(classes).map(([name, rows]) => h("li", {}, h("code", {}, name), ` ${count(rows)}`));
  update(body,
    h("ul", { class: "classes", "aria-label": "Rows by error class" }, known),
    more && h("p", { class: "dim" }, `of ${plural(counted, "row")} that were counted; there are more`),
    h("div", { class: "scrollbox" }, made.table));
}
