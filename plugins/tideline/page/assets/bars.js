/**
 * Bars and curves, to scale; each says its numbers as text too.
 * @module
 */
import { h, s } from "./dom.js";
import { NOTHING, count, duration, plural, short, size } from "./format.js";

/**
 * Headroom of a stream. @param {Object} listed ListedStream
 */
export const headroomBar = ({ status, retention_seconds: kept }) => leftBar(status?.headroom_seconds, kept, status?.headroom_estimated);

/**
 * Time until retention reaches the oldest unread record, as a part of the retention.
 * @param {number|null} seconds Negative is overdue; 0: it has deleted what is unread.
 * @param {number|null} retention Seconds; null where unknown or without limit.
 * @param {boolean} [isEstimated] No run has measured it.
 */
export function leftBar(seconds, retention, isEstimated = false) {
  if (seconds === null || seconds === undefined) {
    return h("span", { class: "dim", title: "nothing is unread, or it is unknown" }, NOTHING);
  }
  const share = retention ? Math.max(0, Math.min(1, seconds / retention)) : null;
  const text = seconds < 0 ? `overdue by ${duration(seconds)}` : seconds === 0 ? "0: records are deleted" : duration(seconds);
  const title = `${text}${retention ? ` of ${duration(retention)} retention` : ""}${isEstimated ? "; estimated: no run has measured it" : ""}`;
  return h(
    "span",
    { class: "gauge", title },
    share !== null && bar(share, share < 0.1 ? "bad" : share < 0.25 ? "warn" : "good"),
    h("span", { class: seconds <= 0 ? "text over" : "text" }, text, isEstimated && h("span", { class: "dim" }, " estimated")),
    retention && h("span", { class: "unseen" }, ` of ${duration(retention)} retention`),
  );
}

/**
 * @param {number} share From 0 to 1.
 * @param {string} tone
 * @param {number|null} [mark] Where a line is drawn: from 0 to 1.
 */
export function bar(share, tone, mark = null) {
  const percent = (value) => `${(value * 100).toFixed(2)}%`;
  return h(
    "span",
    { class: "bar", "aria-hidden": "true" },
    h("span", { class: `fill ${tone}${share > 0 ? " some" : ""}`, style: { width: percent(share) } }),
    mark !== null && h("span", { class: "line", style: { left: percent(mark) } }),
  );
}

const DAY_MS = 86_400_000;
const DAYS = 14;
const dayOf = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 10);

/** The days without a gap, up to today: a day on which nothing was landed has no entry. */
function complete(days) {
  const known = new Map(days.map((one) => [one.day, one]));
  const found = [];
  for (let at = Date.now(); found.length < DAYS && dayOf(at) >= days[0].day; at -= DAY_MS) {
    found.unshift(known.get(dayOf(at)) ?? { day: dayOf(at), rows: 0, bytes: 0 });
  }
  return found.length ? found : days;
}

/** @param {Object[]} given Day: day, rows, bytes. @returns {Object} Rows and bytes of a whole day, on average. */
export function average(given) {
  const days = given.length ? complete(given) : given;
  const today = dayOf(Date.now());
  const whole = days.filter(({ day }) => day !== today);
  const over = whole.length ? whole : days;
  const mean = (name) => over.reduce((sum, day) => sum + day[name], 0) / (over.length || 1);
  return { rows: mean("rows"), bytes: mean("bytes") };
}

/**
 * One number of each day as a line; nothing for fewer than two days that know it.
 * @param {Object[]} days Day.
 * @param {string} name Of the number.
 * @param {(value: number) => string} say
 * @param {(...values: number[]) => number} worst Which of them is written beside it.
 */
export function trend(days, name, say, worst) {
  const known = days.filter((day) => day[name] !== null);
  if (known.length < 2) return null;
  const [width, height] = [76, 22];
  const values = known.map((day) => day[name]);
  const [least, most] = [Math.min(0, ...values), Math.max(1, ...values)];
  const at = (value, n) => `${((n * width) / (known.length - 1)).toFixed(1)},${(height - 1 - ((value - least) / (most - least)) * (height - 3)).toFixed(1)}`;
  const title = known.map((day) => `${day.day}: ${say(day[name])}`).join("\n");
  return h(
    "span",
    { class: "curve", title },
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none", "aria-hidden": "true" }, s("polyline", { class: "bytes", points: values.map(at).join(" ") })),
    h("span", { class: "text" }, say(worst(...values))),
    h("span", { class: "unseen" }, ` by day. ${title}`),
  );
}

/**
 * Rows a day as a filled curve, bytes as a line, each to its own scale.
 * @param {Object[]} given Day: day, rows, bytes.
 */
export function curve(given) {
  if (!given.length) return h("span", { class: "dim" }, NOTHING);
  const days = complete(given);
  const [width, height] = [76, 22];
  const step = days.length > 1 ? width / (days.length - 1) : 0;
  const points = (name) => {
    const most = Math.max(1, ...days.map((day) => day[name]));
    return days.map((day, at) => `${(at * step).toFixed(1)},${(height - 1 - (day[name] / most) * (height - 3)).toFixed(1)}`);
  };
  const rows = points("rows");
  const { rows: mean, bytes } = average(given);
  const most = days.reduce((best, day) => (day.rows > best.rows ? day : best));
  const last = days[days.length - 1];
  const title =
    `${plural(days.length, "day")}. ${last.day}: ${count(last.rows)} rows, ${size(last.bytes)}. ` +
    `Most: ${count(most.rows)} rows, ${size(most.bytes)} on ${most.day}.`;
  return h(
    "span",
    { class: "curve", title },
    step > 0 && s(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none", "aria-hidden": "true" },
      s("polygon", { class: "rows", points: `0,${height} ${rows.join(" ")} ${width},${height}` }),
      s("polyline", { class: "bytes", points: points("bytes").join(" ") }),
    ),
    h("span", { class: "text" }, `${short(mean)} rows`, h("span", { class: "size" }, h("br"), size(bytes))),
    h("span", { class: "unseen" }, ` a day. ${title}`),
  );
}
