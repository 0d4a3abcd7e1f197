/**
 * Tables: a caption, sorting by their heads, and cells that know their head where a narrow window shows cards.
 * @module
 */
import { h } from "./dom.js";
import { count, plural } from "./format.js";

/**
 * @typedef {Object} Column
 * @property {string} id
 * @property {string} label
 * @property {boolean} [number] Aligned to the right.
 * @property {boolean} [sortable]
 * @property {string} [hint]
 * @property {(item: *) => *} cell
 */

/**
 * @param {string} caption For screen readers.
 * @param {Column[]} columns
 * @param {string} [kind] A class.
 * @returns {{table: HTMLTableElement, head: Element, body: Element}}
 */
export function table(caption, columns, kind = "") {
  const head = h("thead", { role: "rowgroup" });
  const body = h("tbody", { role: "rowgroup" });
  // Cards change how a table is displayed; the roles keep it a table for screen readers.
  const whole = h("table", { class: kind, role: "table" }, h("caption", { class: "unseen" }, caption), head, body);
  head.append(headRow(columns, null, () => {}));
  return { table: whole, head, body };
}

/**
 * @param {Column[]} columns
 * @param {{by: string, down: boolean}|null} sort
 * @param {(id: string) => void} onSort
 */
export function headRow(columns, sort, onSort) {
  return h("tr", { role: "row" }, columns.map((column) => headCell(column, sort, onSort)));
}

function headCell({ id, label, number, sortable, hint }, sort, onSort) {
  const sorted = sortable && sort?.by === id;
  const order = sorted ? (sort.down ? "descending" : "ascending") : sortable ? "none" : null;
  const props = { role: "columnheader", scope: "col", class: `${id}${number ? " number" : ""}`, "aria-sort": order, title: hint };
  if (!sortable) return h("th", props, label);
  const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (sort.down ? "▼" : "▲") : "");
  return h("th", props, h("button", { type: "button", onclick: () => onSort(id) }, label, arrow));
}

/**
 * @param {Column[]} columns
 * @param {*} item
 * @param {Object} [props]
 */
export function row(columns, item, props = {}) {
  return h(
    "tr",
    { role: "row", ...props },
    columns.map(({ id, label, number, cell }, at) => {
      const holds = { class: `${id}${number ? " number" : ""}`, "data-label": label };
      return at === 0
        ? h("th", { ...holds, scope: "row", role: "rowheader" }, cell(item))
        : h("td", { ...holds, role: "cell" }, cell(item));
    }),
  );
}

/**
 * Which rows of a long list are shown, and ways to the others.
 * @param {number} first How many are left out before. @param {number} each A page.
 * @param {number} last How many are shown or left out before. @param {number} total @param {string} one What a row is.
 * @param {(first: number) => void} turn
 */
export function turning(first, each, last, total, one, turn) {
  const step = (text, label, to, isOff) =>
    total > each && h("button", { type: "button", "data-key": label, "aria-label": label, disabled: isOff, onclick: () => turn(to) }, text);
  return [
    h("span", { class: "dim" }, total ? `${count(first + 1)} to ${count(last)} of ${plural(total, one)}` : `no ${one}s`),
    step("« First", "First page", 0, first === 0),
    step("‹ Previous", "Previous page", Math.max(0, first - each), first === 0),
    step("Next ›", "Next page", first + each, last >= total),
    step("Last »", "Last page", Math.floor((total - 1) / each) * each, last >= total),
  ];
}

/**
 * Compare for sorting; unknown values last, whichever the direction.
 * @param {*} one @param {*} other @param {boolean} down
 */
export function compare(one, other, down) {
  const [lacksOne, lacksOther] = [one === null || one === undefined, other === null || other === undefined];
  if (lacksOne || lacksOther) return Number(lacksOne) - Number(lacksOther);
  const order = typeof one === "string" ? one.localeCompare(other) : one - other;
  return down ? -order : order;
}
