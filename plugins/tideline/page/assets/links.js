/**
 * Ways out of the page. Airflow shows it in a frame that may neither open windows nor navigate its
 * host (no allow-popups, no allow-top-navigation). The host has the same origin, so it follows the link itself.
 * @module
 */
import { AIRFLOW } from "./api.js";
import { h } from "./dom.js";

/**
 * A link to a page of Airflow's, or another safe address; plain text where the address is neither.
 * @param {string|null} url Relative to Airflow's root, or http(s).
 * @param {...*} children
 * @returns {Node}
 */
export function airflowLink(url, ...children) {
  const to = address(url);
  if (!to) return h("span", {}, children);
  return h("a", { href: to, target: "_top" }, children, h("span", { class: "out", "aria-hidden": "true" }, " ↗"));
}

function address(url) {
  if (!url) return null;
  try {
    const to = new URL(url.replace(/^\/+/, ""), AIRFLOW);
    return to.protocol === "http:" || to.protocol === "https:" ? to.href : null;
  } catch {
    return null;
  }
}

/**
 * An entry of the runbook: a link to the docs' site, or to the page's own copy; otherwise its path.
 * @param {string|null} site Its address; `docs` is the copy.
 * @param {string} entry `docs/incidents-and-errors.md#retention_loss`
 * @param {string} name
 * @returns {Node}
 */
export function runbookLink(site, entry, name) {
  const open = (href) => h("a", { href, target: "_blank", rel: "noopener" }, name);
  if (site === "docs" && /^docs\/[\w/-]+\.md(#[\w-]+)?$/.test(entry)) return open(entry);
  if (!/^https?:\/\//.test(site ?? "")) return h("code", {}, entry);
  const page = entry.replace(/^docs\//, "").replace(/\.md(#|$)/, "/$1");
  return open(`${site.replace(/\/+$/, "")}/${page}`);
}

/** @param {string} name @returns {HTMLAnchorElement} The page of one stream. */
export function streamLink(name) {
  return h("a", { href: `?stream=${encodeURIComponent(name)}`, class: "name" }, name);
}

/** @returns {string} Where to log in; comes back to what the reader sees now. */
export function loginAddress() {
  const to = new URL("api/v2/auth/login", AIRFLOW);
  to.searchParams.set("next", (hostWindow() ?? window).location.href);
  return to.href;
}

function hostWindow() {
  try {
    return window.parent !== window && window.parent.document ? window.parent : null;
  } catch {
    return null;
  }
}

/** Let the host follow what this frame may not. */
export function letHostFollow() {
  if (!hostWindow()) return;
  document.addEventListener("click", follow);
  document.addEventListener("auxclick", follow);
}

function follow(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button > 1) return;
  const apart = link.target === "_blank" || event.button === 1 || event.ctrlKey || event.metaKey || event.shiftKey;
  if (!apart && link.target !== "_top") return;
  event.preventDefault();
  const page = hostWindow().document;
  const twin = page.createElement("a");
  twin.href = link.href;
  if (apart) {
    twin.target = "_blank";
    twin.rel = "noopener";
  }
  page.body.append(twin);
  twin.click();
  twin.remove();
}
