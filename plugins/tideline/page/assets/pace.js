/**
 * Lag and duration of runs by hour, with an axis; and when a stream will have caught up.
 * @module
 */
import { h, s, update } from "./dom.js";
import { duration, short, time } from "./format.js";

const HOURS = 24;
const HOUR_MS = 3_600_000;
const EACH_TICK = 6; // hours

/** @param {Element} body @param {Object} pace Pace */
export function showPace(body, { hours }) {
  const now = Math.floor(Date.now() / HOUR_MS);
  const known = new Map(hours.map((one) => [Math.floor(Date.parse(one.begins_at) / HOUR_MS), one]));
  const slots = Array.from({ length: HOURS }, (_, at) => now - HOURS + 1 + at);
  update(body, h("div", { class: "paces" },
    chart("Unread when a run was planned", "lag", slots, (at) => known.get(at)?.unread, short),
    chart("Duration of the longest run", "good", slots, (at) => known.get(at)?.seconds, duration)));
}

/** One bar an hour; hours without a run have none. */
function chart(name, tone, slots, valueOf, say) {
  const values = slots.map((at) => valueOf(at) ?? null);
  const most = Math.max(...values);
  const known = slots.flatMap((at, n) => (values[n] === null ? [] : [`${clock(at)} ${say(values[n])}`]));
  const bars = values.map((value, n) => value !== null && most > 0 && s("rect", { class: `fill ${tone}`, x: n + 0.1, width: 0.8, y: 40 - (value / most) * 40, height: (value / most) * 40 },
    s("title", {}, `${clock(slots[n])} UTC: ${say(value)}`)));
  return h("figure", { class: "pace" },
    h("figcaption", {}, name),
    h("div", { class: "ticks y", "aria-hidden": "true" }, h("span", {}, say(most)), h("span", {}, "0")),
    s("svg", { viewBox: `0 0 ${HOURS} 40`, preserveAspectRatio: "none", "aria-hidden": "true" }, s("path", { class: "grid", d: `M0,0 H${HOURS} M0,20 H${HOURS} M0,40 H${HOURS}` }), bars),
    h("div", { class: "ticks x", "aria-hidden": "true" }, slots.filter((_, n) => n % EACH_TICK === 0).map((at) => h("span", {}, clock(at))), h("span", {}, "now (UTC)")),
    h("span", { class: "unseen" }, `by hour, UTC: ${known.join(", ")}`));
}

const clock = (hour) => `${new Date(hour * HOUR_MS).toISOString().slice(11, 13)}:00`;

/** What the pace of the last hours makes of the lag. @param {Object|null} pace Pace @returns {*} */
export function outlook(pace) {
  if (pace?.grows) return h("span", { class: "over" }, "grows at the pace of the last hours");
  return pace?.caught_up_at ? ["caught up ", time(pace.caught_up_at), " at this pace"] : "unread offsets";
}
