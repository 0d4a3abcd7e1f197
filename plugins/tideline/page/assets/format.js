/**
 * Numbers, sizes and times as people say them.
 * @module
 */
import { h } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];
const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];
const COUNTS = ["", " k", " M", " G", " T"];

export const NOTHING = "–";

/** @param {number|null|undefined} value @returns {string} `1,234,567` */
export function count(value) {
  return value === null || value === undefined ? NOTHING : WHOLE.format(value);
}

/** @param {number|null|undefined} value @returns {string} `1.2 M` */
export function short(value) {
  return value === null || value === undefined ? NOTHING : scaled(value, COUNTS);
}

/** @param {number|null|undefined} value @returns {string} `1.2 GB`; decimal units */
export function size(value) {
  return value === null || value === undefined ? NOTHING : scaled(value, SIZES.map((unit) => ` ${unit}`));
}

function scaled(value, units) {
  let at = 0;
  let left = value;
  while (Math.abs(left) >= 999.5 && at < units.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${at && Math.abs(left) < 9.95 ? left.toFixed(1) : WHOLE.format(left)}${units[at]}`;
}

/** @param {number} seconds @returns {string} `42 s`, `1 min 37 s`, `2 h 5 min`, `4 d 2 h` */
export function duration(seconds) {
  const whole = Math.abs(seconds);
  if (whole > 0 && whole < 0.9995) return `${Math.max(1, Math.round(whole * 1000))} ms`;
  if (whole < 10) return `${Number(whole.toFixed(1))} s`;
  const at = UNITS.findIndex(([length]) => whole >= length);
  const [length, unit] = UNITS[at];
  const first = Math.floor(whole / length);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((whole - first * length) / next[0]) : 0;
  return first < 10 && rest ? `${first} ${unit} ${rest} ${next[1]}` : `${first} ${unit}`;
}

/** A duration that goes on: nobody counts the seconds of minutes. @param {number} seconds */
function rough(seconds) {
  return duration(seconds < 60 ? Math.floor(seconds) : Math.floor(seconds / 60) * 60);
}

/** @param {string} iso @param {number} [now] Milliseconds. @returns {string} `3 min ago`, `in 2 h` */
export function ago(iso, now = Date.now()) {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  return seconds > 0 ? `${rough(seconds)} ago` : `in ${rough(-seconds)}`;
}

/** @param {string} iso @returns {string} `2026-11-23 18:00:03 UTC` */
export function exact(iso) {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? iso : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/**
 * A time: how long ago, its exact value as the title; `tick` keeps it true.
 * @param {string|null|undefined} iso
 * @param {"ago"|"age"} [as] `3 min ago`, or the age alone: `3 min`.
 * @returns {Node}
 */
export function time(iso, as = "ago") {
  if (!iso) return document.createTextNode(NOTHING);
  return h("time", { datetime: iso, title: exact(iso), "data-as": as }, spoken(iso, as));
}

function spoken(iso, as) {
  return as === "age" ? rough(Math.max(0, (Date.now() - Date.parse(iso)) / 1000)) : ago(iso);
}

/** Say the times on the page anew. @param {ParentNode} [root] */
export function tick(root = document) {
  for (const node of root.querySelectorAll("time[datetime]")) {
    const text = spoken(node.dateTime, node.dataset.as);
    if (node.textContent !== text) node.textContent = text;
  }
}

/** @param {number} start @param {number} end Exclusive. @returns {string} `[1,200, 5,000)` */
export function range(start, end) {
  return `[${count(start)}, ${count(end)})`;
}

/** @param {number} number @param {string} one @param {string} [many] @returns {string} `1 row`, `2 rows` */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

const AIRFLOWS = /^([a-z_]+?)__(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/;

/**
 * A run's id, short: Airflow's own ids as time and kind. Its title is the whole id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function runName(id) {
  const [, kind, day, at] = AIRFLOWS.exec(id) ?? [];
  if (!kind) return h("span", { class: "runname id", title: id }, middle(id, 30));
  return h("span", { class: "runname", title: id }, `${day} ${at.slice(0, 5)}`, h("span", { class: "seconds" }, at.slice(5)), " UTC", h("span", { class: "kind" }, ` ${kind.replace("_", " ")}`));
}

/** Cut in the middle: both ends tell names apart. @param {string} text @param {number} length */
export function middle(text, length) {
  if (text.length <= length) return text;
  const head = Math.ceil((length - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - 1 - head))}`;
}
