// A stack or a profile in the dialog of actions: text, and for a profile its flame graph.

import { h } from "./dom.js";
import { FlameGraph } from "./flame.js";

export function showReport(dialog, report, flame) {
  dialog.classList.add("wide");
  const text = h("pre", { class: "report", tabindex: "0" }, report);
  if (!flame) return dialog.querySelector(".answer").after(text);
  const holder = h("div");
  const search = h("input", { type: "search", class: "filter", placeholder: "Find calls", "aria-label": "Find calls" });
  const details = h("details", {}, h("summary", {}, "As a table"), text);
  dialog.querySelector(".answer").after(search, h("div", { class: "flame-scroller" }, holder), details);
  const graph = new FlameGraph(holder);
  search.addEventListener("input", () => graph.search(search.value));
  graph.show(flame);
}
