/**
 * Coverage as a picture: offsets from left to right, a strip for each log, bands to scale.
 * @module
 */
import { bandTable } from "./coverage_table.js";
import { KINDS, legend } from "./bands.js";
import { h, update } from "./dom.js";
import { plural, range, short } from "./format.js";
import { around, extent, fitted, isWhole, panned, zoomed } from "./scale.js";
import { axis, layout, strips } from "./strips.js";

const STEP = 2;
const PAN = 0.25;

/**
 * @param {Element} body
 * @param {(topic: string, partition: number, offset: number) => void} onExplain
 * @returns {{show: (partitions: Object[]) => void}}
 */
export function buildCoverage(body, onExplain) {
  const picture = { view: null, partitions: [], rows: [], chosen: null, width: 0, asTable: false, onExplain };
  build(body, picture);
  return {
    show: (partitions) => {
      const changed = JSON.stringify(partitions);
      if (changed === picture.changed) return;
      const before = picture.chosen && identity(picture, picture.chosen);
      Object.assign(picture, { changed, partitions, rows: layout(partitions) });
      picture.chosen = before && places(picture).find((at) => identity(picture, at) === before);
      picture.view = fitted(picture.view, extent(partitions.flatMap(({ logs }) => logs)));
      draw(picture);
    },
  };
}

function build(body, picture) {
  const button = (text, label, act) =>
    h("button", { type: "button", "aria-label": label, title: label, onclick: () => act() }, text);
  const move = (change) => look(picture, change);
  picture.zoom = h("div", { class: "zoom", role: "group", "aria-label": "Zoom and pan" },
    button("+", "Zoom in", () => move((view) => zoomed(view, STEP))),
    button("−", "Zoom out", () => move((view) => zoomed(view, 1 / STEP))),
    button("←", "Pan to lower offsets", () => move((view) => panned(view, -PAN))),
    button("→", "Pan to higher offsets", () => move((view) => panned(view, PAN))),
    button("Fit", "Show all offsets", () => move((view) => fitted(null, view))));
  picture.swap = h("button", { type: "button", "aria-pressed": "false", onclick: () => swap(picture) }, "Show as a table");
  picture.legend = h("div", { class: "legendbox" });
  picture.axis = h("div", { class: "axis" });
  picture.strips = h("div", { class: "strips" });
  picture.readout = h("p", { class: "readout", id: "readout", "aria-live": "polite" });
  picture.stage = h("div", {
    class: "stage", tabindex: "0", role: "application", "aria-roledescription": "picture of offsets", "aria-describedby": "readout keys",
    "aria-label": "Coverage", onkeydown: (event) => onKey(picture, event),
  }, picture.axis, picture.strips);
  picture.keys = h("p", { class: "keys dim", id: "keys" },
    "Keys: + and − zoom, ← and → pan, 0 shows all, n and p go from band to band, Enter zooms to a band, ",
    "e explains its first record. Or drag, and turn the wheel with Ctrl.");
  picture.table = h("div", { class: "scrollbox bandtable", hidden: true });
  const tools = h("div", { class: "coveragetools" }, picture.zoom, picture.swap);
  body.append(tools, picture.legend, picture.stage, picture.readout, picture.keys, picture.table);
  listen(picture);
}

/** Every band as `[row, index]`, in the order of the picture. */
const places = ({ rows }) => rows.flatMap(({ log }, row) => log.bands.map((_, index) => [row, index]));

/** A band stays chosen where its row moves. */
function identity({ rows }, [row, index]) {
  const { topic, partition, log } = rows[row];
  return JSON.stringify([topic, partition, log.topic_id, log.generation, log.bands[index].start_offset]);
}

function listen(picture) {
  const { stage } = picture;
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    look(picture, (view) => zoomed(view, event.deltaY < 0 ? 1.25 : 0.8, offsetAt(picture, event)));
  }, { passive: false });
  stage.addEventListener("pointerover", (event) => onBand(picture, event, tell));
  stage.addEventListener("click", (event) => onBand(picture, event, choose));
  stage.addEventListener("dblclick", (event) => onBand(picture, event, zoomTo));
  stage.addEventListener("pointerdown", (event) => startDrag(picture, event));
  new ResizeObserver(() => {
    if (stage.clientWidth && stage.clientWidth !== picture.width) draw(picture);
  }).observe(stage);
}

function startDrag(picture, down) {
  if (down.button !== 0 || down.pointerType === "touch") return;
  const { stage } = picture;
  const begun = { view: picture.view, x: down.clientX };
  const drag = (event) => {
    if (Math.abs(event.clientX - begun.x) < 4) return;
    look(picture, () => panned(begun.view, (begun.x - event.clientX) / inner(picture)));
  };
  const end = () => {
    stage.removeEventListener("pointermove", drag);
    window.removeEventListener("pointerup", end);
  };
  stage.addEventListener("pointermove", drag);
  window.addEventListener("pointerup", end);
}

const inner = ({ width, gutter }) => Math.max(40, width - gutter - 12);

function offsetAt(picture, event) {
  const x = event.clientX - picture.stage.getBoundingClientRect().left - picture.gutter;
  return picture.view.from + (x / inner(picture)) * (picture.view.until - picture.view.from);
}

function look(picture, change) {
  picture.view = change(picture.view);
  picture.waiting ??= requestAnimationFrame(() => {
    picture.waiting = null;
    draw(picture);
  });
}

function draw(picture) {
  const { stage, partitions, view } = picture;
  picture.width = stage.clientWidth || 800;
  picture.gutter = picture.width < 560 ? 104 : 190;
  const bands = picture.rows.flatMap(({ log }) => log.bands);
  update(picture.legend, legend(new Set(bands.map(({ kind }) => kind))));
  stage.setAttribute("aria-label", `Coverage of ${plural(partitions.length, "partition")}, ${plural(bands.length, "band")}`);
  update(picture.axis, axis(picture, inner(picture)));
  update(picture.strips, strips(picture, inner(picture)));
  for (const button of picture.zoom.children) {
    if (button.textContent !== "+") button.toggleAttribute("disabled", isWhole(view) && document.activeElement !== button);
  }
  if (!picture.chosen) say(picture, shown(view));
  if (picture.asTable) update(picture.table, bandTable(picture.rows));
}

const shown = (view) => `Shown: ${isWhole(view) ? "all offsets, " : ""}${range(Math.floor(view.from), Math.ceil(view.until))}`;

function say(picture, text) {
  update(picture.readout, text);
}

function onBand(picture, event, act) {
  const drawn = event.target.closest?.("[data-band]");
  if (drawn) act(picture, JSON.parse(drawn.dataset.band));
}

/** @param {Object} picture @param {number[]} at Indices of the row and of the band. */
function tell(picture, [row, index]) {
  const { topic, partition, log } = picture.rows[row];
  const band = log.bands[index];
  const length = band.end_offset - band.start_offset;
  const where = `${topic ?? "(no name)"}-${partition}, generation ${log.generation}`;
  const size = length < 1e6 ? plural(length, "offset") : `${short(length)} offsets`;
  say(picture, `${where}: ${KINDS[band.kind].label} ${range(band.start_offset, band.end_offset)}, ${size}`);
}

function choose(picture, at) {
  picture.chosen = at;
  draw(picture);
  tell(picture, at);
}

function zoomTo(picture, [row, index]) {
  const band = picture.rows[row].log.bands[index];
  look(picture, (view) => around(view, band.start_offset, band.end_offset));
}

function walk(picture, by) {
  const all = places(picture);
  if (!all.length) return;
  const now = picture.chosen ? all.findIndex(([row, index]) => row === picture.chosen[0] && index === picture.chosen[1]) : by > 0 ? -1 : 0;
  choose(picture, all[(now + by + all.length) % all.length]);
  const [row, index] = picture.chosen;
  const band = picture.rows[row].log.bands[index];
  if (band.end_offset <= picture.view.from || band.start_offset >= picture.view.until) zoomTo(picture, picture.chosen);
  picture.strips.querySelector(`[data-row="${row}"]`)?.scrollIntoView({ block: "nearest" });
}

function explain(picture) {
  const { topic, partition, log } = picture.rows[picture.chosen[0]];
  if (topic && log.current) picture.onExplain(topic, partition, log.bands[picture.chosen[1]].start_offset);
}

const KEYS = {
  "+": (picture) => look(picture, (view) => zoomed(view, STEP)),
  "-": (picture) => look(picture, (view) => zoomed(view, 1 / STEP)),
  0: (picture) => look(picture, (view) => fitted(null, view)),
  ArrowLeft: (picture) => look(picture, (view) => panned(view, -PAN)),
  ArrowRight: (picture) => look(picture, (view) => panned(view, PAN)),
  n: (picture) => walk(picture, 1),
  p: (picture) => walk(picture, -1),
  Enter: (picture) => picture.chosen && zoomTo(picture, picture.chosen),
  e: (picture) => picture.chosen && explain(picture),
};

function onKey(picture, event) {
  const act = KEYS[event.key === "=" ? "+" : event.key === "−" ? "-" : event.key];
  if (!act || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  act(picture);
}

function swap(picture) {
  picture.asTable = !picture.asTable;
  picture.swap.setAttribute("aria-pressed", String(picture.asTable));
  picture.swap.textContent = picture.asTable ? "Show the picture" : "Show as a table";
  for (const part of [picture.stage, picture.legend, picture.readout, picture.keys, picture.zoom]) part.hidden = picture.asTable;
  picture.table.hidden = !picture.asTable;
  draw(picture);
}
