/**
 * The coverage in words: the same bands as the picture, one a line.
 * @module
 */
import { KINDS } from "./bands.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { row, table } from "./table.js";

const COLUMNS = [
  { id: "partition", label: "Partition", cell: ({ topic, partition }) => `${topic ?? "(no name)"}-${partition}` },
  { id: "generation", label: "Generation", number: true, cell: ({ log }) => count(log.generation) },
  { id: "current", label: "Log", cell: ({ log }) => h("span", { title: log.topic_id }, log.current ? "current" : "earlier") },
  { id: "kind", label: "Kind", cell: ({ band }) => h("span", { title: KINDS[band.kind].hint }, KINDS[band.kind].label) },
  { id: "start", label: "Start", number: true, cell: ({ band }) => count(band.start_offset) },
  { id: "end", label: "End (exclusive)", number: true, cell: ({ band }) => count(band.end_offset) },
  { id: "length", label: "Offsets", number: true, cell: ({ band }) => count(band.end_offset - band.start_offset) },
];

/**
 * @param {Object[]} strips As `layout` gives them.
 * @returns {Element}
 */
export function bandTable(strips) {
  const made = table("Bands of offsets of the partitions that are shown", COLUMNS, "bands");
  for (const { topic, partition, log } of strips) {
    for (const band of log.bands) made.body.append(row(COLUMNS, { topic, partition, log, band }, { "data-kind": band.kind }));
  }
  return made.table;
}
