/**
 * Elements out of values. No text is ever read as HTML: names and reasons come from others.
 * @module
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element.
 * @param {string} tag
 * @param {Object<string, *>} [props] Attributes; `on...` functions; `style` as an object (by CSSOM).
 * @param {...*} children Nodes, texts, or lists of them; null and false are left out.
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/**
 * An SVG element; like `h`.
 * @param {string} tag
 * @param {Object<string, *>} [props]
 * @param {...*} children
 * @returns {SVGElement}
 */
export function s(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(node, name, value);
    else if (name === "style") for (const [key, to] of Object.entries(value)) node.style.setProperty(key, to);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function listen(node, name, value) {
  node[name] = value;
  (node.listening ??= []).push(name);
}

/**
 * Make what `parent` holds equal to `children`, and keep each node that can stay: focus and scroll stay.
 * @param {Element} parent
 * @param {...*} children As for `h`.
 */
export function update(parent, ...children) {
  const fresh = document.createElement("div");
  append(fresh, children);
  morphChildren(parent, fresh);
}

/**
 * Make one element equal to another of the same kind.
 * @param {Element} old Stays in the document.
 * @param {Element} fresh Gives its attributes, listeners and children.
 */
export function morph(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isKept(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && !isKept(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // An attribute would be an inline style; CSSOM is none.
  if (old.style && old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const name of old.listening ?? []) old[name] = null;
  for (const name of fresh.listening ?? []) old[name] = fresh[name];
  old.listening = fresh.listening;
  old.stamp = fresh.stamp;
  morphChildren(old, fresh);
}

/** What the reader has changed: an opened part stays open. */
function isKept(node, name) {
  return name === "style" || (name === "open" && node.tagName === "DETAILS");
}

function morphChildren(old, fresh) {
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const same = at && isAlike(at, next) ? at : keyedTwin(at, next);
    if (!same) {
      old.insertBefore(next, at);
      continue;
    }
    while (at !== same) at = drop(at);
    if (same.nodeType === Node.TEXT_NODE) {
      if (same.data !== next.data) same.data = next.data;
    } else morph(same, next);
    at = same.nextSibling;
  }
  while (at) at = drop(at);
}

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function isAlike(one, other) {
  return one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;
}

function keyedTwin(from, wanted) {
  if (!wanted.dataset?.key) return null;
  for (let node = from; node; node = node.nextSibling) if (isAlike(node, wanted)) return node;
  return null;
}

/**
 * Rows of a long list: only what has changed is built again.
 * @template T
 * @param {Element} parent
 * @param {T[]} items In the order to show.
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => string} stampOf What the row depends on.
 * @param {(item: T) => Element} build
 */
export function rows(parent, items, keyOf, stampOf, build) {
  const had = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const nodes = items.map((item) => {
    const key = keyOf(item);
    const stamp = stampOf(item);
    const node = had.get(key);
    if (node && node.stamp === stamp) return node;
    const fresh = build(item);
    fresh.dataset.key = key;
    fresh.stamp = stamp;
    if (!node) return fresh;
    morph(node, fresh);
    return node;
  });
  const now = parent.children;
  if (now.length === nodes.length && nodes.every((node, index) => now[index] === node)) return;
  const focused = document.activeElement;
  parent.replaceChildren(...nodes);
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/**
 * Tell a screen reader; once for each change.
 * @param {string} text
 */
export function announce(text) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
}
