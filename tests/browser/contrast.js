() => {
  // Visible texts whose contrast with what is behind them is below WCAG's AA.
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

  function rgba(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  }

  function light(colour) {
    const parts = colour.slice(0, 3).map((value) => value / 255);
    const [r, g, b] = parts.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function behind(node) {
    for (let at = node; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3] > 250) return found;
    }
    return [255, 255, 255, 255];
  }

  const poor = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility()) continue;
    if (node.closest(".unseen, svg, :disabled, noscript, .skip")) continue;
    const both = [light(rgba(getComputedStyle(node).color)), light(behind(node))];
    const [less, more] = both.sort((one, other) => one - other);
    const ratio = (more + 0.05) / (less + 0.05);
    const words = text.data.trim().slice(0, 30);
    if (ratio < 4.5) poor.add(`${ratio.toFixed(2)}: ${node.className || node.tagName}: ${words}`);
  }
  return [...poor];
}
