// The page of one task, worker, host, client, group, function or graph. scaler_ui says what is known of it.

import { h, setText } from "./dom.js";
import { GraphDrawing } from "./graph.js";
import { OutputLines } from "./output.js";
import { DataTable } from "./table.js";

// By the first part of the address: what it is called, the view that it belongs to, and what the others are filtered by.
export const KINDS = {
  task: { title: "Task", view: "tasks" },
  worker: { title: "Worker", view: "workers" },
  host: { title: "Host", view: "workers" },
  client: { title: "Client", view: "clients" },
  group: { title: "Group", view: "clients", missing: "None of the known clients is in it." },
  function: { title: "Function", view: "functions" },
  graph: { title: "Graph", view: "graphs" },
  map: { title: "Map", view: "progress" },
  scheduler: { title: "Scheduler", view: "logs" },
  object: { title: "Object", view: "objects", missing: "It was released, or it is not among the largest objects." },
};
// Of what the output is shown on the page.
const PRINTED_BY = { task: ([client, task]) => ({ client, task: Number(task) }), worker: ([, worker]) => ({ worker }) };
const WHOLE = { tasks: "All in the task log", running: "All running tasks", actors: "All actors" };

export class EntityView {
  constructor(page, kind, key) {
    Object.assign(this, { page, kind, key });
    this.title = h("h1", {}, `${KINDS[kind].title} ${key.at(-1) ?? ""}`);
    this.swatch = h("span", { class: "swatch large", hidden: true });
    this.about = h("span", { class: "about" });
    this.tools = h("div", { class: "tools" });
    this.actions = h("div", { class: "tools" });
    this.facts = h("dl", { class: "facts entity" });
    this.card = h("section", { class: "card padded" }, this.facts);
    this.sections = h("div", { class: "grid" });
    this.tables = new Map();
    this.text = h("pre");
    this.details = h("section", { class: "card details", hidden: true }, h("header", {}, h("h2", {}, "Known failures")), this.text);
    this.missing = h("div", { class: "card empty", hidden: true }, h("strong", {}, "Not known"), h("p", {}, KINDS[kind].missing ?? "It never existed, or it ended so long ago that this monitor does not remember it."));
    this.drawing = kind === "graph" ? new GraphDrawing({ changed: page.changed, onOpen: (task) => { location.hash = `#/task/${encodeURIComponent(key[0])}/${task}`; } }) : null;
    this.output = PRINTED_BY[kind] ? new OutputLines(page.changed, PRINTED_BY[kind](key)) : null;
    this.element = h("div", { class: "entity-page" }, h("div", { class: "heading" }, this.swatch, this.title, this.about, this.tools, this.actions), this.missing, this.card,
      this.drawing ? h("section", { class: "card graph-card" }, this.drawing.element) : null, this.details, this.output?.element ?? null, this.sections);
  }

  watch() {
    const graph = this.drawing && { drawing: { what: "graph_drawing", client: this.key[0], graph: Number(this.key[1]), known: this.drawing.signature } };
    return { entity: { what: "entity", kind: this.kind, key: this.key }, ...graph, ...(this.output && { output: this.output.watch() }) };
  }

  update(key, result) {
    if (key === "drawing") return this.drawing.take(result);
    if (key === "output") return this.output.update(result);
    if (key !== "entity") return;
    this.missing.hidden = result.is_known;
    this.card.hidden = !result.is_known;
    if (!result.is_known) return;
    setText(this.title, result.title);
    this.swatch.hidden = !result.colour;
    this.swatch.style.background = result.colour;
    this.showFacts(result.facts);
    this.showSections(result.sections);
    this.showTools(result);
    this.showActions(result.actions);
    this.details.hidden = !result.text;
    setText(this.text, result.text);
  }

  // A name that comes again stands for one more value of the same.
  showFacts(facts) {
    const mark = JSON.stringify(facts);
    if (mark === this.factsShown) return;
    this.factsShown = mark;
    this.facts.replaceChildren(...facts.map(([name, text, path], index) => h("div", {},
      h("dt", {}, index && facts[index - 1][0] === name ? "" : name), h("dd", {}, path ? h("a", { href: `#/${path}` }, text) : text))));
  }

  showSections(sections) {
    const seen = new Set(sections.map((each) => each.title));
    for (const [title, { element }] of this.tables) if (!seen.has(title)) { element.remove(); this.tables.delete(title); }
    for (const each of sections) {
      const known = this.tables.get(each.title) ?? this.makeSection(each);
      setText(known.count, each.total > each.rows.length ? `the first ${each.rows.length.toLocaleString("en-US")} of ${each.total.toLocaleString("en-US")}` : each.total.toLocaleString("en-US"));
      known.table.update({ ...each, total: each.rows.length });
      this.sections.append(known.element);
    }
  }

  makeSection({ title, table: name }) {
    const table = new DataTable(this.page.tables[name], { compact: true, limit: 50, hide: name === "logs" ? ["number"] : [], actions: this.page.actions.of(this.page.tables[name]), fixedOrder: true }, this.page.changed);
    table.element.className = "table-card";
    const count = h("span", { class: "about" });
    const element = h("section", { class: "card" }, h("header", {}, h("h2", {}, title), count, this.more(name)), table.element);
    const made = { table, count, element };
    this.tables.set(title, made);
    return made;
  }

  // The same rows in the view that can sort and page them.
  more(name) {
    if (!WHOLE[name] || this.kind === "task") return null;
    const filter = this.key.at(-1);
    return h("a", { href: `#/${name}?filter=${encodeURIComponent(filter)}` }, WHOLE[name]);
  }

  showTools({ moments }) {
    if (!moments || this.tools.childElementCount) return;
    const [start, stop] = moments;
    const span = Math.max(0.001, (stop - start) * 3);
    this.tools.append(h("a", { class: "tool", href: `#/stream?span=${+span.toPrecision(6)}&end=${(stop + span / 3).toFixed(6)}` }, "In the task stream"));
  }

  showActions(actions) {
    const mark = JSON.stringify(actions);
    if (mark === this.actionsShown) return;
    this.actionsShown = mark;
    this.actions.replaceChildren(...[this.page.actions.button(actions)].filter(Boolean));
  }

  samplesChanged() {}
  recolour() { this.drawing?.draw(); }
  close() { this.drawing?.close(); }
  focusFilter() {}
  pressed(event) { return this.drawing?.key(event) ?? false; }
}
