// The views: what each shows of what arrives. A view says what it watches, and takes the results.

import { h, icon, momentField, setText, sparkline } from "./dom.js";
import { Chart } from "./charts.js";
import { OutputLines } from "./output.js";
import { DataTable } from "./table.js";
import { TaskStream } from "./stream.js";

const numberIn = (parameters, name) => { const value = parameters.get(name); return value === null || !Number.isFinite(Number(value)) ? null : Number(value); };

const BLUE = "#2f81f7";
const ORANGE = "#e69f00";
const GREEN = "#1f9d72";
const VIOLET = "#9a6fd8";
const PINK = "#cc79a7";
const SPARK_SECONDS = 120;

export const CHARTS = {
  throughput: { title: "Throughput", kind: "rate", series: [{ name: "throughput", label: "ended", colour: BLUE }, { name: "failures", label: "failed", colour: "var(--bad)" }] },
  tasks: { title: "Unfinished tasks", kind: "count", series: [{ name: "unassigned", label: "waiting", colour: ORANGE }, { name: "running", label: "running", colour: BLUE }, { name: "queued", label: "queued on hosts", colour: VIOLET }] },
  cpu: { title: "CPU", kind: "percent", series: [{ name: "workers_cpu", label: "workers", colour: GREEN }, { name: "agents_cpu", label: "agents", colour: VIOLET }, { name: "scheduler_cpu", label: "scheduler", colour: ORANGE }] },
  memory: { title: "Memory", kind: "bytes", series: [{ name: "workers_rss", label: "workers", colour: GREEN }, { name: "agents_rss", label: "agents", colour: VIOLET }, { name: "store_used", label: "stores", colour: BLUE }, { name: "store_spilled", label: "on disk", colour: PINK }, { name: "scheduler_rss", label: "scheduler", colour: ORANGE }, { name: "hosts_used", label: "used on all hosts", colour: "var(--muted)" }, { name: "hosts_limit", label: "of", colour: "var(--bad)" }] },
  transfers: { title: "Objects between hosts", kind: "byte_rate", series: [{ name: "store_sent", label: "sent", colour: BLUE }, { name: "store_received", label: "received", colour: GREEN }] },
  peers: { title: "Workers and clients", kind: "count", series: [{ name: "workers", label: "workers", colour: GREEN }, { name: "clients", label: "clients", colour: PINK }] },
};

export const SPANS = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["All", Infinity]];

function heading(title, about, ...tools) {
  return h("div", { class: "heading" }, h("h1", {}, title), h("span", { class: "about" }, about ?? ""), h("div", { class: "tools" }, tools));
}

export function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([text, value]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen()), onclick: () => { choose(value); show(); } }, text));
  const show = () => buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(choices[index][1] === chosen())));
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

// What all views share. `page` has: changed(), samples, store (kept between visits), tables (specifications), spec texts.
class View {
  constructor(page) { this.page = page; }
  watch() { return {}; }
  update() {}
  samplesChanged() {}
  recolour() {}
  close() {}
  focusFilter() {}
}

// ---- charts ----------------------------------------------------------------------------------------------------

class ChartsView extends View {
  makeCharts(names, height) {
    this.charts = names.map((name) => new Chart({ ...CHARTS[name], height }));
    this.names = [...new Set(names.flatMap((name) => CHARTS[name].series.map((each) => each.name)))];
    return this.charts.map((chart) => chart.element);
  }

  spans() {
    return segments("Time shown", SPANS, () => this.page.span, (value) => { this.page.span = value; this.page.remember({ span: value === 300 ? null : value }); this.samplesChanged(); });
  }

  samplesChanged() {
    for (const chart of this.charts) chart.draw(this.page.samples.last(chart.series.map((each) => each.name), this.page.span), this.latest);
  }

  recolour() { this.charts.forEach((chart) => chart.recolour()); }
  close() { this.charts.forEach((chart) => chart.close()); }
}

class Tile {
  constructor(name, target, options = {}) {
    this.value = h("div", { class: "value" }, "–");
    this.note = h("div", { class: "note" });
    this.spark = options.spark ? sparkline() : null;
    this.element = h("a", { class: `card tile ${options.class ?? ""}`, href: `#/${target}` }, this.spark?.element, h("div", { class: "name" }, name), this.value, this.note);
  }

  show([value, note, bad]) {
    setText(this.value, value);
    this.value.classList.toggle("long", value.length > 9);
    setText(this.note, note ?? "");
    this.element.classList.toggle("bad", Boolean(bad));
  }
}

export class Overview extends ChartsView {
  constructor(page) {
    super(page);
    this.tiles = {
      throughput: new Tile("Throughput", "tasks", { spark: true }), left: new Tile("Left", "progress"), running: new Tile("Running", "running", { spark: true }),
      waiting: new Tile("Waiting", "waiting", { spark: true }), success: new Tile("Succeeded", "tasks"), failed: new Tile("Failed", "failures"),
      workers: new Tile("Workers", "workers"), cpu: new Tile("CPU", "processors", { spark: true }),
      memory: new Tile("Memory", "memory", { spark: true }),
    };
    this.sparks = { throughput: "throughput", running: "running", waiting: "unassigned", cpu: "workers_cpu", memory: "hosts_used" };
    this.stream = new TaskStream({ small: true, span: 30, changed: page.changed });
    this.part = h("span", { style: { color: "var(--muted)" } });
    const strip = h("section", { class: "card", style: { marginTop: "14px" } },
      h("header", {}, h("h2", {}, "Task stream, last 30 s"), this.part, h("a", { href: "#/stream" }, "Open")),
      h("div", { style: { display: "flex", height: "168px" } }, this.stream.element));
    this.functions = new DataTable(page.tables.functions, {
      compact: true, limit: 8, sort: "total", descending: true, hide: ["module", "digest", "canceled"],
      empty: { icon: "functions", title: "No functions yet", text: "They appear with the first tasks." },
    }, page.changed);
    this.progress = new DataTable(page.tables.progress, {
      compact: true, limit: 6, hide: ["end"], empty: { icon: "progress", title: "All tasks have ended" },
    }, page.changed);
    this.progress.element.className = "table-card";
    const progress = h("section", { class: "card", style: { marginTop: "14px" } }, h("header", {}, h("h2", {}, "Progress"), h("a", { href: "#/progress" }, "All unfinished work")), this.progress.element);
    this.running = new DataTable(page.tables.running, {
      compact: true, limit: 5, hide: ["usual", "pid", "started"],
      empty: { icon: "running", title: "No task has run for a second or longer" },
    }, page.changed);
    this.running.element.className = "table-card";
    const running = h("section", { class: "card", style: { marginTop: "14px" } }, h("header", {}, h("h2", {}, "Longest-running tasks"), h("a", { href: "#/running" }, "All running tasks")), this.running.element);
    const functions = h("section", { class: "card", style: { marginTop: "14px" } }, h("header", {}, h("h2", {}, "Functions by total time"), h("a", { href: "#/functions" }, "All functions")), this.functions.element);
    this.functions.element.className = "table-card";
    this.element = h("div", {}, heading("Overview", "", this.spans()),
      h("div", { class: "tiles" }, Object.values(this.tiles).map((tile) => tile.element)),
      h("div", { class: "grid charts", style: { marginTop: "14px" } }, this.makeCharts(["throughput", "tasks", "cpu", "memory"])), progress, running, strip, functions);
  }

  watch() { return { functions: this.functions.watch(), progress: this.progress.watch(), latest: { what: "latest" }, running: this.running.watch(), stream: this.stream.watch(), overview: { what: "overview" } }; }

  update(key, result) {
    if (key === "functions") this.functions.update(result);
    if (key === "running") this.running.update(result);
    if (key === "progress") this.progress.update(result);
    if (key === "latest") { this.latest = result; this.samplesChanged(); }
    if (key === "overview") for (const [name, shown] of Object.entries(result)) this.tiles[name]?.show(shown);
  }

  stream_(head, buffer) {
    this.stream.take(head, buffer);
    setText(this.part, head.rows.length < head.total_rows ? `the first ${head.rows.length} of ${head.total_rows} workers` : "");
  }

  samplesChanged() {
    super.samplesChanged();
    for (const [tile, name] of Object.entries(this.sparks)) this.tiles[tile].spark.draw(this.page.samples.last([name], SPARK_SECONDS)[1].map((value) => value ?? 0));
  }

  recolour() { super.recolour(); this.stream.draw(); }
  close() { super.close(); this.stream.close(); }
}

export class Memory extends ChartsView {
  constructor(page) {
    super(page);
    this.table = new DataTable(page.tables.hosts, {
      compact: true, limit: 50,
      empty: { icon: "memory", title: "No hosts yet", text: "Start workers with scaler_cluster." },
    }, page.changed);
    const hosts = h("section", { class: "card", style: { marginTop: "14px" } }, h("header", {}, h("h2", {}, "By host")), this.table.element);
    this.table.element.className = "table-card";
    this.element = h("div", {}, heading("Memory", page.tables.objects.memory ?? "resident memory of the processes, and what object stores hold", this.spans()),
      h("div", { class: "grid" }, this.makeCharts(["memory"], 330)), h("div", { class: "grid two" }, this.makeMore()), hosts);
  }

  makeMore() {
    const first = this.charts;
    const elements = this.makeCharts(["transfers", "peers"]);
    this.charts = [...first, ...this.charts];
    return elements;
  }

  watch() { return { hosts: this.table.watch() }; }
  update(key, result) { if (key === "hosts") this.table.update(result); }
}

// ---- tables ----------------------------------------------------------------------------------------------------

const EMPTY = {
  workers: { icon: "workers", title: "No workers", text: "Start some with: scaler_cluster -n 4 ADDRESS. They appear here within a second." },
  tasks: { icon: "tasks", title: "No task has ended while this monitor watched", text: "Each one that ends is listed here, the newest first." },
  functions: { icon: "functions", title: "No functions yet", text: "They appear with the first tasks." },
  running: { icon: "running", title: "No task has run for a second or longer", text: "Tasks that take longer are listed here while they run: what, where, since when, and whether they look stuck." },
  waits: { icon: "waiting", title: "Nothing waits for long", text: "Tasks that do not run are listed here with the reason: no worker, no worker with the right capabilities, all workers busy." },
  objects: { icon: "objects", title: "No objects", text: "Large arguments and results are kept by the hosts that need them, and are counted here." },
  traffic: { icon: "objects", title: "No traffic", text: "What the object stores of two hosts have sent to each other is counted here." },
  largest: { icon: "objects", title: "No large objects", text: "Functions, arguments, results and values of more than 32 KiB are listed here, the largest ones first: where they are, and which tasks need them." },
  clients: { icon: "clients", title: "No clients", text: "Client(\"ADDRESS\") in a program connects one." },
  progress: { icon: "progress", title: "All tasks have ended", text: "Clients, groups, functions and graphs with unfinished tasks are listed here, with their progress and when they will end." },
  alerts: { icon: "alerts", title: "No alerts", text: "Hosts that run out of memory or disk, silent hosts, many failures, and tasks that no worker can run are listed here." },
  logs: { icon: "output", title: "Nothing has been logged yet", text: "The newest lines that scheduler, agents, object stores and worker managers log are listed here." },
  settings: { icon: "settings", title: "The settings are not known yet", text: "Its settings arrive with its first snapshot." },
  messages: { icon: "settings", title: "No messages yet" },
};

class TableView extends View {
  constructor(page, name, options = {}) {
    super(page);
    const spec = page.tables[name];
    this.name = name;
    this.table = new DataTable(spec, { empty: EMPTY[name], actions: page.actions.of(spec), ...options }, page.changed);
    this.fixed = true;
    this.element = h("div", { style: { display: "contents" } }, heading(spec.title, spec.help), this.table.element);
    this.restore(page.store);
  }

  // Order and filter are those of the address, or the ones that were left when somebody comes back.
  restore(store) {
    const kept = (store[this.name] ??= {});
    const given = this.page.parameters;
    if (given.size) {
      const sort = this.table.spec.columns.some((each) => each.key === given.get("sort")) ? given.get("sort") : this.table.spec.sort;
      Object.assign(kept, { filter: given.get("filter") ?? "", sort, descending: given.has("order") ? given.get("order") === "down" : this.table.spec.descending, offset: numberIn(given, "from") ?? 0 });
    }
    Object.assign(this.table, kept);
    if (this.table.input && kept.filter) this.table.input.value = kept.filter;
    this.table.showSort();
    this.kept = kept;
  }

  watch() {
    const { filter, sort, descending, offset, spec } = this.table;
    Object.assign(this.kept, { filter, sort, descending, offset });
    const usual = sort === spec.sort && descending === spec.descending;
    this.page.remember({ filter, sort: usual ? null : sort, order: usual ? null : descending ? "down" : "up", from: offset || null });
    return { [this.name]: this.table.watch() };
  }

  update(key, result) { if (key === this.name) this.table.update(result); }
  focusFilter() { this.table.focusFilter(); }
}

export class Objects extends TableView {
  constructor(page) {
    super(page, "largest");
    this.fixed = false;
    const spec = page.tables.objects;
    this.hosts = new DataTable(spec, { compact: true, limit: 50, actions: page.actions.of(spec), empty: EMPTY.objects }, page.changed);
    this.hosts.element.className = "table-card";
    const hosts = h("section", { class: "card" }, h("header", {}, h("h2", {}, "By host")), this.hosts.element);
    this.traffic = new DataTable(page.tables.traffic, { compact: true, limit: 50, empty: EMPTY.traffic }, page.changed);
    this.traffic.element.className = "table-card";
    const traffic = h("section", { class: "card", style: { marginTop: "14px" } }, h("header", {}, h("h2", {}, "Between hosts")), this.traffic.element);
    this.element = h("div", {}, heading("Objects", "what the object stores hold"), hosts, traffic,
      h("div", { class: "heading", style: { marginTop: "18px" } }, h("h2", {}, this.table.spec.title), h("span", { class: "about" }, "where they are, and which tasks need them")), this.table.element);
  }

  watch() { return { objects: this.hosts.watch(), traffic: this.traffic.watch(), ...super.watch() }; }

  update(key, result) {
    if (key === "objects") this.hosts.update(result);
    else if (key === "traffic") this.traffic.update(result);
    else super.update(key, result);
  }
}

export class Settings extends TableView {
  constructor(page) {
    super(page, "settings");
    this.fixed = false;
    this.messages = new DataTable(page.tables.messages, { empty: EMPTY.messages, compact: true }, page.changed);
    this.notices = new DataTable(page.tables.notices, { limit: 50, compact: true, empty: { title: "No agent or client has joined or left while this monitor watched" } }, page.changed);
    this.about = h("dl", { class: "facts", style: { padding: "4px 15px 14px" } });
    const card = (title, content) => h("section", { class: "card" }, h("header", {}, h("h2", {}, title)), content);
    for (const table of [this.messages, this.notices]) table.element.className = "table-card";
    this.element = h("div", {}, heading("Settings", "how the scheduler was started, and the messages that it exchanges"),
      h("div", { class: "grid two", style: { alignItems: "start" } }, h("div", { class: "grid" }, card("Scheduler", this.about), this.table.element),
        h("div", { class: "grid" }, card("Joined and left", this.notices.element), card("Messages", this.messages.element))));
  }

  watch() { return { ...super.watch(), messages: this.messages.watch(), notices: this.notices.watch(), scheduler: { what: "scheduler" } }; }

  update(key, result) {
    super.update(key, result);
    if (key === "messages") this.messages.update(result);
    if (key === "notices") this.notices.update(result);
    if (key === "scheduler") this.about.replaceChildren(...result.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }
}

// ---- task stream -----------------------------------------------------------------------------------------------

export class Stream extends View {
  constructor(page) {
    super(page);
    this.fixed = true;
    const tool = (title, text, act) => h("button", { type: "button", class: "tool", title, "aria-label": title, onclick: act }, text);
    this.stream = new TaskStream({
      span: numberIn(page.parameters, "span") ?? page.store.span ?? 30, end: numberIn(page.parameters, "end"), changed: page.changed, onOpen: (path) => { location.hash = `#/${path}`; }, onLegend: (functions, parts) => this.showLegend(functions, parts), onView: (view) => this.showView(view),
    });
    this.stream.firstRow = numberIn(page.parameters, "row") ?? 0;
    this.chosen = page.parameters.get("function");
    this.followButton = h("button", { type: "button", class: "tool", id: "follow", title: "Follow what happens now (space)", onclick: () => this.stream.follow() }, "Follow");
    this.about = h("span", { class: "about" });
    this.legend = h("div", { class: "key", role: "group", "aria-label": "Functions" });
    this.shades = h("div", { class: "shades", hidden: true });
    const choose = h("select", { class: "tool", "aria-label": "Time shown", onchange: (event) => { if (event.target.value) this.stream.setSpan(Number(event.target.value)); } },
      h("option", { value: "" }, "Span"), [["100 ms", 0.1], ["1 s", 1], ["10 s", 10], ["30 s", 30], ["1 min", 60], ["5 min", 300], ["30 min", 1800], ["2 h", 7200]].map(([text, value]) => h("option", { value }, text)));
    this.choose = choose;
    this.moment = momentField((text) => { this.sought = text; this.page.changed(); });
    this.problem = h("p", { class: "notice warning", role: "status", hidden: true });
    const tools = [this.moment, this.followButton, tool("Zoom in (+)", "+", () => this.stream.zoom(0.6, this.stream.end === null ? 1 : 0.5)), tool("Zoom out (-)", "−", () => this.stream.zoom(1.6, this.stream.end === null ? 1 : 0.5)),
      choose, tool("Everything that is kept (Home)", "All", () => this.stream.showAll()), tool("Save the picture as PNG", "PNG", () => this.save()), tool("Save what is shown as a trace for Perfetto", "Trace", () => this.saveTrace())];
    this.element = h("div", { style: { display: "contents" } }, h("div", { class: "heading" }, h("h1", {}, "Task stream"), this.about, h("div", { class: "tools" }, tools)),
      this.problem, h("div", { class: "keys-line" }, this.legend, this.shades), h("section", { class: "card stream-card" }, this.stream.element));
  }

  watch() {
    const { span, end, firstRow } = this.stream;
    this.page.store.span = span;
    this.page.remember({ span: span === 30 ? null : +span.toPrecision(6), end: end === null ? null : end.toFixed(6), row: firstRow || null, function: this.chosen });
    const task = this.stream.watchTask();
    return { stream: this.stream.watch(), ...(task && { task }), ...(this.sought && { moment: { what: "moment", text: this.sought } }) };
  }

  // The keys of the stream, wherever the focus is; buttons keep theirs, and in a recording the space bar is that of the player.
  pressed(event) {
    if (event.target.matches?.("button, a, input") || (event.key === " " && this.page.status?.replay)) return false;
    this.stream.key(event);
    return event.defaultPrevented;
  }

  // False in a recording, which has a field of its own.
  focusMoment() {
    this.moment.focus();
    return true;
  }

  takeMoment({ text, time, problem }) {
    if (text !== this.sought) return;
    this.sought = null;
    this.problem.hidden = !problem;
    setText(this.problem, problem);
    if (time === null) return this.page.changed();
    this.moment.value = "";
    this.stream.goTo(time);
  }

  saveTrace() {
    const { stop, span } = this.stream;
    h("a", { href: `trace?start=${stop - span}&stop=${stop}`, download: "scaler-trace.json" }).click();
  }

  update(key, result) {
    if (key === "task" && result) this.stream.takeTask(result);
    if (key === "moment") this.takeMoment(result);
  }

  stream_(head, buffer) { this.stream.take(head, buffer); }
  recolour() { this.stream.draw(); }
  close() { this.stream.close(); }

  showView({ following, span, tasks, running }) {
    this.followButton.setAttribute("aria-pressed", String(following));
    this.moment.hidden = Boolean(this.page.status?.replay); // a recording has such a field below
    setText(this.about, `${tasks.toLocaleString("en-US")} tasks in ${span}${running ? `, ${running.toLocaleString("en-US")} running` : ""}`);
    this.choose.value = [...this.choose.options].find((option) => Number(option.value) === this.stream.span)?.value ?? "";
  }

  showLegend(functions, parts = this.parts) {
    const entries = Object.entries(functions);
    this.parts = parts;
    this.showShades(parts ?? new Set());
    this.stream.highlighted = this.chosen === null ? null : new Set(entries.filter(([, [name]]) => name === this.chosen).map(([index]) => Number(index)));
    const mark = JSON.stringify(entries);
    if (mark === this.legendShown) return;
    this.legendShown = mark;
    const byName = new Map(entries.map(([, [name, colour]]) => [name, colour]));
    this.legend.replaceChildren(...[...byName].map(([name, colour]) => h("button", {
      type: "button", title: `Show only ${name}`, "data-name": name, "aria-pressed": String(this.chosen === name), onclick: () => this.highlight(name),
    }, h("span", { class: "swatch", style: { background: colour } }), h("span", {}, name))));
  }

  // What the shades inside bars mean, while there are any.
  showShades(parts) {
    const names = Object.keys(this.stream.data?.head.tints ?? {}).filter((name) => parts.has(name));
    const mark = names.join();
    if (mark === this.shadesShown) return;
    this.shadesShown = mark;
    this.shades.hidden = names.length === 0;
    const shade = (name) => h("span", {}, h("i", { class: "shade", style: { background: this.shadeOf(name) } }), name);
    this.shades.replaceChildren(...["fetching", "loading", "running", "storing"].filter((name) => name === "running" || names.includes(name)).map(shade));
  }

  shadeOf(name) {
    const [colour, opacity] = this.stream.data.head.tints[name] ?? ["#ffffff", 0];
    const layer = colour + Math.round(255 * opacity).toString(16).padStart(2, "0");
    return `linear-gradient(${layer}, ${layer}), var(--accent)`;
  }

  highlight(name) {
    this.chosen = this.chosen === name ? null : name;
    for (const button of this.legend.children) button.setAttribute("aria-pressed", String(button.dataset.name === this.chosen));
    this.legendShown = null;
    this.showLegend(this.stream.data?.head.functions ?? {});
    this.stream.draw();
    this.page.changed();
  }

  save() {
    const link = h("a", { download: "task-stream.png", href: this.stream.canvas.toDataURL("image/png") });
    link.click();
  }
}

// ---- worker processes, graphs, failures ------------------------------------------------------------------------------

export class WorkerProcesses extends View {
  constructor(page) {
    super(page);
    this.hosts = h("div", { class: "hosts" });
    this.empty = h("div", { class: "card empty", hidden: true }, icon("processors"), h("strong", {}, "No workers"), h("p", {}, "Start some with: scaler_cluster -n 4 ADDRESS."));
    this.more = h("p", { class: "about", style: { marginTop: "12px", color: "var(--muted)" } });
    this.cards = new Map();
    this.element = h("div", {}, heading("Worker processes", "what every worker process does: the bar is its CPU, a green frame means that it has a task"), this.hosts, this.empty, this.more);
  }

  watch() { return { processes: { what: "processes" } }; }

  update(key, result) {
    if (key !== "processes") return;
    this.empty.hidden = result.hosts.length > 0;
    setText(this.more, result.more ? `and ${result.more.toLocaleString("en-US")} more agents, in the table of workers` : "");
    const seen = new Set();
    for (const host of result.hosts) {
      seen.add(host.key);
      const card = this.cards.get(host.key) ?? this.makeCard(host);
      this.fill(card, host);
    }
    for (const [key, card] of this.cards) if (!seen.has(key)) { card.element.remove(); this.cards.delete(key); }
  }

  makeCard(host) {
    const card = { title: h("h2"), state: h("span", { class: "status" }), line: h("div", { class: "line" }), cells: h("div", { class: "cells" }) };
    card.element = h("section", { class: "card host" }, h("header", {}, card.title, card.state), card.line, card.cells);
    this.hosts.append(card.element);
    this.cards.set(host.key, card);
    return card;
  }

  fill(card, host) {
    setText(card.title, host.name);
    card.title.title = host.name;
    card.state.className = `status ${{ connected: "good", suspect: "warning", paused: "warning", draining: "warning", lost: "bad" }[host.state] ?? ""}`;
    setText(card.state, host.state);
    if (card.lineShown !== (card.lineShown = host.facts.join("\0"))) card.line.replaceChildren(...host.facts.map((fact) => h("span", {}, fact)));
    card.cells.classList.toggle("many", host.workers.length > 64);
    while (card.cells.children.length > host.workers.length) card.cells.lastChild.remove();
    host.workers.forEach((worker, index) => this.fillCell(card.cells.children[index] ?? card.cells.appendChild(h("a", {}, h("span"), h("span"))), worker));
  }

  fillCell(cell, [name, state, cpu, text, title, path]) {
    cell.href = `#/${path}`;
    cell.className = `cell ${state}`;
    cell.style.setProperty("--level", `${Math.min(100, cpu).toFixed(0)}%`);
    setText(cell.children[0], name);
    setText(cell.children[1], text);
    cell.title = title;
  }
}

export class Graphs extends View {
  constructor(page) {
    super(page);
    this.list = h("div", { class: "graphs" });
    this.cards = new Map();
    this.empty = h("div", { class: "card empty", hidden: true }, icon("graphs"), h("strong", {}, "No graph runs"), h("p", {}, "Client.get(graph, keys) and Dask's compute(scheduler=client) submit one. Its progress is shown here while it runs."));
    this.more = h("p", { style: { marginTop: "12px", color: "var(--muted)" } });
    this.element = h("div", {}, heading("Graphs", page.tables.graphs.help), this.list, this.empty, this.more);
  }

  watch() { return { graphs: { what: "graphs" } }; }

  update(key, result) {
    if (key !== "graphs") return;
    this.empty.hidden = result.graphs.length > 0;
    setText(this.more, result.more ? `and ${result.more.toLocaleString("en-US")} more` : "");
    const cards = new Map(result.graphs.map((graph) => [graph.path, this.cards.get(graph.path) ?? this.makeCard(graph)]));
    result.graphs.forEach((graph) => this.fill(cards.get(graph.path), graph));
    const elements = [...cards.values()].map((card) => card.element);
    if (elements.length !== this.list.children.length || elements.some((element, at) => element !== this.list.children[at])) this.list.replaceChildren(...elements);
    this.cards = cards;
  }

  // The link and the menu stay the same elements, so that a click or the focus is not lost with the next update.
  makeCard({ name, client, path, actions }) {
    const card = { nodes: h("span"), counts: h("span", { style: { display: "contents" } }), end: h("span", { class: "end" }), bar: h("div", { class: "progress", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": name }) };
    card.element = h("section", { class: "card graph" }, h("div", { class: "line" }, h("a", { href: `#/${path}` }, h("b", {}, name)), h("span", {}, client), card.nodes, card.counts, card.end, this.page.actions.button(actions)), card.bar);
    return card;
  }

  fill(card, { nodes, parts, percent, left }) {
    setText(card.nodes, nodes);
    card.counts.replaceChildren(...parts.filter(([, text]) => text !== "0").map(([kind, text]) => h("span", {}, `${text} ${kind === "running" ? "on hosts" : kind}`)));
    setText(card.end, left ? `${percent}%, ${left}` : `${percent}%`);
    card.bar.setAttribute("aria-valuenow", percent);
    card.bar.replaceChildren(...parts.filter(([kind, , share]) => share > 0 && kind !== "waiting").map(([kind, , share]) => h("i", { class: kind, style: { width: `${share * 100}%` } })));
  }
}

export class Failures extends TableView {
  constructor(page) {
    super(page, "failures", {
      onRow: (values, key) => this.choose(key), hide: ["group"],
      empty: { icon: "failures", title: "Nothing has failed", text: "Failures are grouped here by their cause, with the traceback or the death certificate of examples." },
    });
    this.text = h("pre");
    const copy = h("button", { type: "button", class: "tool", onclick: () => this.copy() }, "Copy");
    const given = page.parameters.get("group");
    if (given !== null) this.table.selected = given;
    this.details = h("section", { class: "card details", hidden: true, "aria-label": "Details" }, h("header", {}, h("h2", {}, "Details"), copy), this.text);
    const [head, table] = this.element.children;
    this.element.replaceChildren(head, h("div", { class: "panes" }, table, this.details));
  }

  // The clipboard of navigator exists on safe origins only, which a plain http address of another host is not.
  copy() {
    if (navigator.clipboard) return navigator.clipboard.writeText(this.text.textContent);
    getSelection().selectAllChildren(this.text);
    document.execCommand("copy");
  }

  choose(key) {
    this.table.selected = key;
    for (const row of this.table.rows) row.element.setAttribute("aria-selected", String(row.key === key));
    this.page.changed();
  }

  watch() {
    const group = this.table.selected;
    this.page.remember({ group: group ?? null });
    return { ...super.watch(), ...(group !== undefined && { failure: { what: "failure", group: Number(group) } }) };
  }

  update(key, result) {
    super.update(key, result);
    if (key === "failures" && result.rows.length && this.table.selected === undefined) this.choose(result.keys[0]);
    if (key === "failure") { this.details.hidden = !result.text; setText(this.text, result.text); }
  }
}

class Output extends View {
  constructor(page) {
    super(page);
    this.output = new OutputLines(page.changed);
    this.element = h("div", {}, heading("Output", "what tasks print"), this.output.element);
  }

  watch() { return { output: this.output.watch() }; }
  update(key, result) { if (key === "output") this.output.update(result); }
  focusFilter() { this.output.focusFilter(); }
}

// By the former name of a view, which old addresses have, its name.
export const RENAMED = { processors: "processes" };

// Name, title, icon, what makes the view, and its key.
export const VIEWS = [
  ["Now", [
    ["overview", "Overview", "overview", (page) => new Overview(page), "1"],
    ["stream", "Task stream", "stream", (page) => new Stream(page), "2"],
    ["running", "Running", "running", (page) => new TableView(page, "running"), "r"],
    ["actors", "Actors", "actors", (page) => new TableView(page, "actors"), "e"],
    ["progress", "Progress", "progress", (page) => new TableView(page, "progress"), "p"],
    ["alerts", "Alerts", "alerts", (page) => new TableView(page, "alerts", { hide: ["rule"] }), "a"],
    ["workers", "Workers", "workers", (page) => new TableView(page, "workers"), "3"],
    ["processes", "Worker processes", "processors", (page) => new WorkerProcesses(page), "4"],
  ]],
  ["Work", [
    ["tasks", "Task log", "tasks", (page) => new TableView(page, "tasks"), "5"],
    ["functions", "Functions", "functions", (page) => new TableView(page, "functions"), "6"],
    ["waiting", "Waiting", "waiting", (page) => new TableView(page, "waits"), "7"],
    ["failures", "Failures", "failures", (page) => new Failures(page), "8"],
    ["graphs", "Graphs", "graphs", (page) => new Graphs(page), "9"],
    ["output", "Output", "output", (page) => new Output(page), "u"],
  ]],
  ["Cluster", [
    ["memory", "Memory", "memory", (page) => new Memory(page), "m"],
    ["objects", "Objects", "objects", (page) => new Objects(page), "o"],
    ["clients", "Clients", "clients", (page) => new TableView(page, "clients"), "c"],
    ["logs", "Logs", "output", (page) => new TableView(page, "logs", { hide: ["number"] }), "l"],
    ["settings", "Settings", "settings", (page) => new Settings(page), "s"],
  ]],
];
