"use strict";
// Before anything is painted, so that the page does not flash in the other colours.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("scaler-theme"); } catch { /* a browser that keeps nothing */ }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
