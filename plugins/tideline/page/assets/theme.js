// Light or dark, as Airflow has it. A classic script: it runs before the first paint.
(() => {
  "use strict";
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  /** The document of Airflow around this page, or null: none, or not to be read. */
  function host() {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null;
    }
  }

  /** What Airflow keeps: "light", "dark", "system", or null. */
  function stored() {
    try {
      return window.localStorage.getItem("theme");
    } catch {
      return null;
    }
  }

  function wanted() {
    const classes = host()?.classList;
    if (classes?.contains("dark")) return "dark";
    if (classes?.contains("light")) return "light";
    const kept = stored();
    if (kept === "dark" || kept === "light") return kept;
    return system.matches ? "dark" : "light";
  }

  function follow() {
    document.documentElement.dataset.theme = wanted();
  }

  follow();
  system.addEventListener("change", follow);
  window.addEventListener("storage", follow);
  const around = host();
  if (around) new MutationObserver(follow).observe(around, { attributes: true, attributeFilter: ["class"] });
})();
