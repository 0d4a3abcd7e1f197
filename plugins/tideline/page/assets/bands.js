/**
 * The kinds of bands: their words, the worst first where many share a pixel, and their patterns.
 * @module
 */
import { h, s } from "./dom.js";

/** A colour and a pattern each, so that they can be told apart without colours. */
export const KINDS = {
  at_stake: { label: "at stake", hint: "an open incident is about these offsets" },
  gap: { label: "gap", hint: "below the next offset, and no run has verified it" },
  accepted_loss: { label: "accepted as lost", hint: "a person or a policy has accepted the loss" },
  open: { label: "open", hint: "in a frozen plan, and not verified yet" },
  backfilled: { label: "backfilled", hint: "landed by a backfill" },
  landed: { label: "landed", hint: "landed by the live lane, and verified" },
  unread: { label: "unread", hint: "at or above the next offset" },
};

const SEVERITY = Object.fromEntries(Object.keys(KINDS).map((kind, at) => [kind, at]));

/** @param {string} one @param {string} other @returns {string} The one that must not be overlooked. */
export const worse = (one, other) => (SEVERITY[other] < SEVERITY[one] ? other : one);

/** Whether a band too thin to see gets a mark. @param {string} kind */
export const isMarked = (kind) => kind !== "landed" && kind !== "unread";

const STROKES = {
  at_stake: ["M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4"],
  gap: ["M0,0 l8,8 M8,0 l-8,8"],
  accepted_loss: ["M0,4 h8 M4,0 v8"],
  open: ["M2,0 v8 M6,0 v8"],
  backfilled: ["M-2,6 l4,4 M0,0 l8,8 M6,-2 l4,4"],
  landed: [],
  unread: ["M0,2 h8 M0,6 h8"],
};

/** @param {string} prefix Of the ids. @returns {SVGElement} The patterns of all kinds. */
export function patterns(prefix) {
  return s("defs", {}, Object.keys(KINDS).map((kind) =>
    s("pattern", { id: `${prefix}-${kind}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
      s("rect", { class: `ground ${kind}`, width: 8, height: 8 }),
      STROKES[kind].map((d) => s("path", { class: `stroke ${kind}`, d })))));
}

/** @param {Set<string>} used Kinds that are in the picture. @returns {Element} */
export function legend(used) {
  const entry = (label, hint, ...drawn) =>
    h("li", { title: hint }, s("svg", { width: 26, height: 14, "aria-hidden": "true" }, drawn), h("span", {}, label));
  const swatch = (kind) => s("rect", { class: `band ${kind}`, x: 1, y: 1, width: 24, height: 12, fill: `url(#legend-${kind})` });
  return h("ul", { class: "legend", "aria-label": "Legend" },
    h("li", { class: "defs", "aria-hidden": "true" }, s("svg", { width: 0, height: 0 }, patterns("legend"))),
    Object.entries(KINDS).filter(([kind]) => used.has(kind)).map(([kind, { label, hint }]) => entry(label, hint, swatch(kind))),
    entry("next offset", "the first offset not yet ingested", s("path", { class: "next", d: "M8,1 h10 l-5,6 z M13,4 v10" })),
    entry("log start", "Kafka has deleted what is left of it", s("path", { class: "start", d: "M17,1 h-6 v12 h6" })));
}
