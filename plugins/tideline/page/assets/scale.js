/**
 * Offsets to pixels and back; zoom and pan. Pure: touches no page.
 * @module
 */

const LEAST = 10; // offsets across the whole picture

/**
 * What of the offsets is shown: `[from, until)`, within `[least, most)`.
 * @typedef {{least: number, most: number, from: number, until: number}} View
 */

/** @param {Object[]} logs Log @returns {{least: number, most: number}} */
export function extent(all) {
  const logs = all.filter((log) => log.end_offset > log.start_offset);
  const least = Math.min(...logs.map((log) => log.start_offset));
  const most = Math.max(...logs.map((log) => log.end_offset));
  return Number.isFinite(least) ? { least, most: Math.max(most, least + LEAST) } : { least: 0, most: LEAST };
}

/** The whole extent, or the same part as before where the logs have grown. @param {View|null} view */
export function fitted(view, { least, most }) {
  if (!view || isWhole(view)) return { least, most, from: least, until: most };
  return clamped({ least, most, from: view.from, until: view.until });
}

/** @param {View} view */
export const isWhole = (view) => view.from <= view.least && view.until >= view.most;

/** @param {View} view @param {number} factor Above 1 shows less. @param {number} [at] The offset that stays in place. */
export function zoomed(view, factor, at = (view.from + view.until) / 2) {
  const span = Math.max(LEAST, (view.until - view.from) / factor);
  const share = (at - view.from) / (view.until - view.from);
  const from = at - share * span;
  return clamped({ ...view, from, until: from + span });
}

/** @param {View} view @param {number} share Of what is shown; negative goes to lower offsets. */
export function panned(view, share) {
  const by = (view.until - view.from) * share;
  return clamped({ ...view, from: view.from + by, until: view.until + by });
}

/** Show `[start, end)` with a margin. @param {View} view @param {number} start @param {number} end */
export function around(view, start, end) {
  const margin = Math.max((end - start) * 0.15, LEAST / 2);
  return clamped({ ...view, from: start - margin, until: end + margin });
}

function clamped({ least, most, from, until }) {
  const span = Math.min(until - from, most - least);
  const start = Math.min(Math.max(from, least), most - span);
  return { least, most, from: start, until: start + span };
}

/** @param {View} view @param {number} width Pixels. @returns {(offset: number) => number} */
export function scaler(view, width) {
  const each = width / (view.until - view.from);
  return (offset) => (offset - view.from) * each;
}

/** Round offsets for the axis. @param {View} view @param {number} width Pixels. @returns {number[]} */
export function ticks(view, width) {
  const rough = (view.until - view.from) / Math.max(1, Math.floor(width / 120));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * [1, 2, 5, 10].find((times) => times * power >= rough));
  const found = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.until; at += step) found.push(Math.round(at));
  return found;
}
