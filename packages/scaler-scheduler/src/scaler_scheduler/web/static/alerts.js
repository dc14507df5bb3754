// What goes wrong in the cluster, above every view: the most urgent alert, and the others on demand.

import { h } from "./dom.js";

const VIEW_OF_TABLE = { agents: "memory", objects: "objects", waits: "waiting", failures: "failures" };

export class AlertsBar {
  constructor(element) {
    this.element = element;
    this.isOpen = false;
  }

  // alerts: [severity, text, how long it has lasted, table] of each, the most urgent first.
  show(alerts) {
    const mark = JSON.stringify([alerts, this.isOpen]);
    if (mark === this.shown) return;
    this.shown = mark;
    const rows = alerts.slice(0, this.isOpen ? undefined : 1).map((alert) => this.row(alert));
    if (alerts.length > 1) rows[0].append(this.more(alerts));
    // A reader of the screen hears what is new, not that time passes.
    const said = alerts.map(([, text]) => text).join("\0");
    this.element.setAttribute("aria-live", said === this.said ? "off" : "assertive");
    this.said = said;
    this.element.replaceChildren(...rows);
  }

  row([severity, text, age, table]) {
    const link = h("a", { href: `#/${VIEW_OF_TABLE[table] ?? "alerts"}`, title: "Show more" }, text);
    return h("div", { class: `notice alert ${severity === "critical" ? "error" : ""}` }, link, h("span", { class: "age" }, age));
  }

  more(alerts) {
    const text = this.isOpen ? "Fewer" : `${alerts.length - 1} more`;
    return h("button", { type: "button", class: "tool", "aria-expanded": String(this.isOpen), onclick: () => { this.isOpen = !this.isOpen; this.show(alerts); } }, text);
  }
}
