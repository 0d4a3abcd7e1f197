/**
 * Ask again while somebody looks.
 * @module
 */
import { tick } from "./format.js";

const CALM_MS = 10_000;
const SOON_MS = 1_000;
const SOON_AT_MOST = 20;

/**
 * Call `load` now, and again for as long as the page is visible.
 * @param {() => Promise<boolean>} load Says whether a look is under way: then it is called again soon.
 * @returns {() => void} Ask at once.
 */
export function keepFresh(load) {
  let timer = null;
  let busy = false;
  let soon = 0;

  async function ask() {
    clearTimeout(timer);
    if (busy) return;
    busy = true;
    let refreshing = false;
    try {
      refreshing = await load();
    } finally {
      busy = false;
      soon = refreshing ? soon + 1 : 0;
      wait(refreshing && soon <= SOON_AT_MOST ? SOON_MS : CALM_MS);
    }
  }

  function wait(milliseconds) {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(ask, milliseconds);
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : ask()));
  setInterval(() => !document.hidden && tick(), 5_000);
  ask();
  return ask;
}
