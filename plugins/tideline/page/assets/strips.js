/**
 * The drawing of the coverage: a strip for each log, thin bands kept visible.
 * @module
 */
import { KINDS, isMarked, patterns, worse } from "./bands.js";
import { s } from "./dom.js";
import { count, middle, range, short } from "./format.js";
import { scaler, ticks } from "./scale.js";

const STRIP = 14;
const GAP = 4;
const APART = 8;
const THIN = 1.5;
const AXIS = 24;

/**
 * A row for each log, the logs of a partition together.
 * @param {Object[]} partitions PagePartition
 * @returns {Object[]} topic, partition, log, y, first: whether it is the first of its partition.
 */
export function layout(partitions) {
  let y = 6;
  return partitions.flatMap(({ topic, partition, log_start_offset, next_offset, logs }) => {
    const several = new Set(logs.map(({ topic_id }) => topic_id)).size > 1;
    const rows = logs.map((log, at) => {
      const row = { topic, partition, log, several, first: at === 0, y, log_start_offset, next_offset };
      y += STRIP + GAP;
      return row;
    });
    y += rows.length ? APART - GAP : 0;
    return rows;
  });
}

/** The axis of offsets. @param {Object} picture @param {number} width Of the strips, in pixels. */
export function axis({ view, gutter, width: whole }, width) {
  const x = scaler(view, width);
  const marks = ticks(view, width);
  const wide = marks.length > 1 ? x(marks[1]) - x(marks[0]) : width;
  const text = count(marks[marks.length - 1]).length * 7 < wide - 12 ? count : short;
  return s("svg", { width: whole, height: AXIS, "aria-hidden": "true" },
    s("text", { class: "caption", x: 0, y: 15 }, gutter > 150 ? "partition, generation" : ""),
    marks.map((at) => s("g", { class: "tick", transform: `translate(${(gutter + x(at)).toFixed(1)},0)` },
      s("text", { y: 14, "text-anchor": x(at) > width - 30 ? "end" : x(at) < 24 ? "start" : "middle" }, text(at)),
      s("path", { d: `M0,18 v${AXIS - 18}` }))));
}

/** All strips. @param {Object} picture @param {number} width Of the strips, in pixels. */
export function strips(picture, width) {
  const { rows, gutter, width: whole, view } = picture;
  const height = rows.length ? rows[rows.length - 1].y + STRIP + GAP : 30;
  const x = scaler(view, width);
  return s("svg", { width: whole, height, "aria-hidden": "true" },
    patterns("band"),
    s("clipPath", { id: "within" }, s("rect", { x: -2, y: -8, width: width + 4, height: STRIP + 16 })),
    ticks(view, width).map((at) => s("path", { class: "grid", d: `M${(gutter + x(at)).toFixed(1)},0 v${height}` })),
    rows.map((row, index) => strip(row, index, { x, gutter, width, chosen: picture.chosen })));
}

function strip(row, index, { x, gutter, width, chosen }) {
  const { log, y } = row;
  return s("g", { transform: `translate(0,${y})`, "data-row": index, class: log.current ? "log current" : "log" },
    label(row, gutter),
    s("g", { transform: `translate(${gutter},0)`, "clip-path": "url(#within)" },
      extentOf(log, x, width),
      drawn(log.bands, index, x, width, chosen),
      log.current && marks(row, x, width)));
}

function label({ topic, partition, log, several, first }, gutter) {
  const place = `${topic ?? "(no name)"}-${partition}`;
  const narrow = gutter < 150;
  const generation = several ? `${log.topic_id.slice(0, 4)}… g${log.generation}` : `g${log.generation}`;
  return [
    first && s("text", { class: "place", x: 0, y: 11 }, s("title", {}, place), middle(place, narrow ? 9 : several ? 14 : 20)),
    s("text", { class: "generation", x: gutter - 8, y: 11, "text-anchor": "end" },
      s("title", {}, `generation ${log.generation} of topic id ${log.topic_id}${log.current ? ", the current log" : ", an earlier log"}`),
      narrow ? `g${log.generation}` : generation),
  ];
}

function extentOf(log, x, width) {
  const from = Math.max(-2, x(log.start_offset));
  const until = Math.min(width + 2, x(log.end_offset));
  return until > from && s("rect", { class: "extent", x: px(from), y: 0, width: px(until - from), height: STRIP });
}

function drawn(bands, row, x, width, chosen) {
  const wide = [];
  const thin = new Map();
  bands.forEach((band, index) => {
    const [from, until] = [x(band.start_offset), x(band.end_offset)];
    if (until < 0 || from > width) return;
    if (until - from >= THIN) {
      wide.push(rect(band, row, index, Math.max(-4, from), Math.min(width + 4, until), isChosen(chosen, row, index)));
      return;
    }
    const pixel = Math.min(Math.floor(from), Math.floor(width - THIN));
    const had = thin.get(pixel);
    if (!had) thin.set(pixel, { band, index, number: 1 });
    else thin.set(pixel, { ...(worse(had.band.kind, band.kind) === had.band.kind ? had : { band, index }), number: had.number + 1 });
  });
  return [wide, [...thin].map(([pixel, one]) => needle(one, row, pixel, isChosen(chosen, row, one.index)))];
}

const isChosen = (chosen, row, index) => chosen?.[0] === row && chosen?.[1] === index;
const px = (value) => value.toFixed(1);

function rect(band, row, index, from, until, is) {
  return s("rect", {
    class: `band ${band.kind}${is ? " chosen" : ""}`, x: px(from), y: 0, width: px(until - from), height: STRIP,
    fill: `url(#band-${band.kind})`, "data-band": `[${row},${index}]`, "data-kind": band.kind,
  }, title(band));
}

function title(band, number = 1) {
  const more = number > 1 ? `, and ${number - 1} more here: zoom in` : "";
  return s("title", {}, `${KINDS[band.kind].label} ${range(band.start_offset, band.end_offset)}${more}`);
}

/** A band thinner than a line is drawn as one, and marked where it matters. */
function needle({ band, index, number }, row, pixel, is) {
  return s("g", { class: `needle ${band.kind}${is ? " chosen" : ""}`, "data-band": `[${row},${index}]`, "data-kind": band.kind },
    s("rect", { class: "hit", x: pixel - 3, y: -4, width: 7, height: STRIP + 8 }),
    s("rect", { class: "line", x: pixel, y: 0, width: THIN, height: STRIP }),
    isMarked(band.kind) && s("path", { class: "flag", d: `M${pixel - 3},-4 h7.5 l-3.75,5 z` }),
    title(band, number));
}

function marks({ log_start_offset, next_offset }, x, width) {
  const within = (offset) => offset !== null && x(offset) >= -1 && x(offset) <= width + 1;
  return [
    within(log_start_offset) && s("path", { class: "start", d: `M${px(x(log_start_offset) + 4)},-2 h-4 v${STRIP + 4} h4` },
      s("title", {}, `log start ${count(log_start_offset)}`)),
    within(next_offset) && s("path", { class: "next", d: arrow(x(next_offset)) },
      s("title", {}, `next offset ${count(next_offset)}`)),
  ];
}

const arrow = (at) => `M${px(at - 4)},-4 h8 l-4,5 z M${px(at)},-2 v${STRIP + 4}`;
