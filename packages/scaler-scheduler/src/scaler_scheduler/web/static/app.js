// The page: navigation, the state of the stream, and the view that is open.

import { Actions } from "./actions.js";
import { AlertsBar } from "./alerts.js";
import { Samples } from "./charts.js";
import { Connection } from "./connection.js";
import { h, icon, setText } from "./dom.js";
import { Replay } from "./replay.js";
import { RENAMED, VIEWS } from "./views.js";
import { EntityView, KINDS } from "./entities.js";

const KEYS = [
  [["/"], "filter the table"], [["Esc"], "drop the filter"], [["↑", "↓", "Enter"], "table: row by row; the page of a row"], [["Backspace"], "the page before"], [["t"], "light or dark"],
  [["←", "→"], "task stream: earlier, later"], [["+", "-"], "task stream: zoom; the mouse wheel does it too"], [["↑", "↓"], "task stream: other workers"],
  [["f"], "graph: all of it"], [["Space"], "task stream: follow; replay: play or pause"], [["<", ">"], "replay: ten seconds back or on"], [["g"], "what happened at a time"], [["?"], "this help"],
];

// The token has done its work: the browser has a cookie now, and the address can be kept or shared without it.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const byId = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.samples = new Samples();
    this.span = 300;
    this.store = {};
    this.changed = () => this.sendWatch();
    this.routes = new Map(VIEWS.flatMap(([, views]) => views.map((view) => [view[0], view])));
    this.makeNavigation();
    this.actions = new Actions(byId("operation"), (message) => this.connection.send(message));
    this.alerts = new AlertsBar(byId("alerts"));
    this.replay = new Replay(byId("replay"), (message) => this.connection.send(message));
    this.connection = new Connection({
      onHello: (hello) => this.hello(hello), onPush: (push) => this.push(push), onStream: (head, data) => this.view?.stream_?.(head, data), onOperated: (answer) => this.actions.take(answer), onState: (open) => this.setOpen(open), onRefused: (refused) => this.setRefused(refused),
    });
    addEventListener("hashchange", () => this.open());
    addEventListener("keydown", (event) => this.key(event));
    byId("theme-button").addEventListener("click", () => this.turnTheme());
    byId("help-button").addEventListener("click", () => this.help());
    this.showTheme();
  }

  makeNavigation() {
    this.links = new Map();
    this.badges = new Map();
    this.keys = new Map();
    for (const [group, views] of VIEWS) {
      byId("navigation").append(h("h2", {}, group));
      for (const [name, title, image, , key] of views) {
        this.keys.set(key, name);
        const badge = h("span", { class: "badge" });
        const link = h("a", { href: `#/${name}`, title: `${title} (${key})`, "aria-keyshortcuts": key }, icon(image), h("span", {}, title), " ", badge);
        this.links.set(name, link);
        this.badges.set(name, badge);
        byId("navigation").append(link);
      }
    }
  }

  // ---- what arrives ----

  hello(hello) {
    this.samples.clear();
    if (this.version !== undefined && this.version !== hello.version) return location.reload();
    this.version = hello.version;
    this.actions.offered = hello.actions;
    if (this.tables) return this.sendWatch();
    this.tables = hello.tables;
    this.open();
  }

  push({ status, results }) {
    if (status) this.showStatus(status);
    for (const [key, result] of Object.entries(results ?? {})) {
      if (key === "samples") { this.samples.take(result); this.view?.samplesChanged(); }
      else this.view?.update(key, result);
    }
  }

  setOpen(open) {
    this.isOpen = open;
    if (!open) this.actions.lose();
    this.showConnection();
  }

  setRefused(refused) {
    this.isRefused = refused;
    this.showConnection();
  }

  showStatus(status) {
    this.status = status;
    this.showConnection();
    this.replay.show(status.replay);
    this.alerts.show(status.alerts);
    for (const [name, [text, bad]] of Object.entries(status.badges)) {
      const badge = this.badges.get(name);
      setText(badge, text);
      badge.classList.toggle("bad", Boolean(bad));
    }
  }

  showConnection() {
    const status = this.status ?? { state: "waiting", label: "Waiting", facts: [], notices: [] };
    const away = this.isOpen === false;
    const [state, label] = away ? ["lost", "Away"] : [status.state, status.label];
    const mark = JSON.stringify([state, label, status.facts]);
    if (mark !== this.connectionShown) {
      this.connectionShown = mark;
      byId("connection").replaceChildren(h("i", { class: `dot ${state}` }), h("span", { class: "state" }, label), ...status.facts.map(([text, minor]) => h("span", { class: minor ? "fact minor" : "fact", title: text }, text)));
      document.title = [label === "Live" ? "" : `${label}: `, status.facts[0]?.[0] ?? "", " · Scaler"].join("").replace(/^ · /, "");
    }
    const why = this.isRefused ? "scaler_ui asks for another token: open the address that it printed when it started." : "This page has lost its connection to scaler_ui. It reconnects when scaler_ui is back.";
    const notices = away ? [["error", why]] : status.notices;
    this.showNotices(notices);
    byId("main").classList.toggle("stale", away || state === "lost");
  }

  showNotices(notices) {
    const mark = JSON.stringify(notices);
    if (mark === this.noticesShown) return;
    this.noticesShown = mark;
    byId("notices").replaceChildren(...notices.map(([kind, text]) => h("div", { class: `notice ${kind}` }, text)));
  }

  // ---- the open view ----

  open() {
    if (!this.tables) return;
    this.address = location.hash;
    const [path, parameters] = location.hash.replace(/^#\/?/, "").split("?");
    const [given, ...key] = path.split("/").map(decoded);
    const name = RENAMED[given] ?? given;
    const kind = KINDS[name];
    const route = this.routes.get(kind?.view ?? name) ?? this.routes.get("overview");
    this.view?.close();
    for (const [each, link] of this.links) {
      if (each === route[0]) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.links.get(route[0]).scrollIntoView({ block: "nearest", inline: "nearest" });
    this.visit = (this.visit ?? 0) + 1;
    this.path = kind ? path : route[0];
    this.parameters = new URLSearchParams(parameters ?? "");
    if (this.parameters.has("span") && !kind) this.span = numberOf(this.parameters.get("span"), this.span);
    this.view = kind ? new EntityView(this, name, key) : route[3](this);
    byId("main").classList.toggle("fixed", Boolean(this.view.fixed));
    byId("main").replaceChildren(this.view.element);
    byId("main").scrollTop = 0;
    if (this.asksForMoment) this.view.focusMoment?.();
    this.asksForMoment = false;
    this.view.samplesChanged();
    this.sendWatch();
  }

  // What is shown goes into the address, so that it survives a reload and can be sent to somebody. null: the usual.
  remember(parameters) {
    for (const [name, value] of Object.entries(parameters)) {
      if (value === null || value === undefined || value === "") this.parameters.delete(name);
      else this.parameters.set(name, String(value));
    }
    const text = this.parameters.toString();
    const wanted = `#/${this.path}${text ? `?${text}` : ""}`;
    if (location.hash !== this.address) return; // another view is about to open
    if (location.hash !== wanted) history.replaceState(null, "", wanted);
    this.address = location.hash;
  }

  sendWatch() {
    const watched = Object.entries(this.view?.watch() ?? {});
    // What a view opened anew asks is a new question, or the server would hold that this page has the answer.
    const questions = watched.map(([key, query]) => [key, { ...query, visit: this.visit }]);
    this.connection?.watch({ samples: { what: "samples" }, ...Object.fromEntries(questions) });
  }

  // ---- keys and colours ----

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.matches?.("input:not([type=range]), select, textarea")) return;
    if (this.keys.has(event.key)) location.hash = `#/${this.keys.get(event.key)}`;
    else if (event.key === "/") { event.preventDefault(); this.view?.focusFilter(); }
    else if (event.key === "t") this.turnTheme();
    else if (event.key === "g") { event.preventDefault(); this.goToMoment(); }
    else if (event.key === "?") this.help();
    else if (event.key === "Backspace") history.back();
    else if (this.view?.pressed?.(event)) return;
    else this.replay.key(event);
  }

  // The field for a time: of the recording, or of the task stream.
  goToMoment() {
    if (this.replay.focusMoment() || this.view?.focusMoment?.()) return;
    this.asksForMoment = true;
    location.hash = "#/stream";
  }

  turnTheme() {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("scaler-theme", theme); } catch { /* then it is not kept */ }
    this.showTheme();
    this.view?.recolour();
  }

  showTheme() {
    setText(byId("theme-button"), document.documentElement.dataset.theme === "dark" ? "☀" : "☾");
  }

  help() {
    const dialog = byId("help");
    const close = h("button", { type: "button", class: "tool", onclick: () => dialog.close() }, "Close");
    const views = VIEWS.flatMap(([, each]) => each.map(([, title, , , key]) => [[key], title]));
    dialog.replaceChildren(h("h1", {}, "Keys"), h("dl", { class: "keys" }, [...views, ...KEYS].flatMap(([keys, text]) => [h("dt", {}, keys.map((key) => h("kbd", {}, key))), h("dd", {}, text)])), close);
    dialog.showModal();
  }
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function numberOf(text, otherwise) {
  const number = Number(text);
  return text !== null && number > 0 ? number : otherwise;
}

window.scaler = new Page();
