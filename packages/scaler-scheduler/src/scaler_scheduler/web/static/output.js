// Output: what tasks print, the newest lines at the bottom. It follows them while it is scrolled down.

import { h, setText } from "./dom.js";

const LINES = 1000;

export class OutputLines {
  // `about`: {client, task} or {worker} of which the output is shown; nothing: of all tasks.
  constructor(changed, about = {}) {
    this.changed = changed;
    this.about = about;
    this.filter = "";
    this.marks = "";
    this.lines = h("div", { class: "output-lines", tabindex: "0", role: "log", "aria-label": "Output" });
    this.count = h("span", { class: "count", "aria-live": "off" });
    this.input = h("input", {
      type: "search", placeholder: "Filter", "aria-label": "Filter output", class: "filter", "aria-keyshortcuts": "/",
      oninput: () => { this.filter = this.input.value; this.changed(); },
      onkeydown: (event) => { if (event.key === "Escape") { this.input.value = this.filter = ""; this.changed(); this.input.blur(); } },
    });
    this.follow = h("button", { type: "button", class: "tool", hidden: true, onclick: () => this.toEnd() }, "Follow");
    this.lines.addEventListener("scroll", () => { this.follow.hidden = this.isAtEnd(); });
    const tools = h("div", { class: "table-tools" }, h("label", { class: "search" }, this.input, h("kbd", {}, "/")), this.count, this.follow);
    this.element = h("div", { class: "card output" }, tools, this.lines);
  }

  watch() {
    return { what: "output", filter: this.filter, offset: 0, limit: LINES, ...this.about };
  }

  isAtEnd() {
    return this.lines.scrollTop + this.lines.clientHeight >= this.lines.scrollHeight - 4;
  }

  toEnd() {
    this.lines.scrollTop = this.lines.scrollHeight;
  }

  update(result) {
    setText(this.count, [`${result.total.toLocaleString("en-US")} line${result.total === 1 ? "" : "s"}`, result.note].filter(Boolean).join(" "));
    const marks = `${this.filter}\0${result.lines.length}\0${result.lines.at(-1)?.[0] ?? ""}\0${result.lines[0]?.[0] ?? ""}`;
    if (marks === this.marks) return;
    this.marks = marks;
    const atEnd = this.isAtEnd();
    this.lines.replaceChildren(...(result.lines.length ? result.lines.map((line) => this.line(line)) : [this.nothing()]));
    if (atEnd) this.toEnd();
  }

  line([, time, prefix, client, isError, text]) {
    const about = this.about.task === undefined ? h("b", { title: client ? `client ${client}` : "" }, prefix) : null;
    return h("div", { class: isError ? "line error" : "line" }, h("time", {}, time.slice(0, 8)), about, h("span", {}, text || " "));
  }

  nothing() {
    const [title, text] = this.filter
      ? ["Nothing matches", `No line contains “${this.filter}”.`]
      : ["Nothing printed", "The output of tasks appears here while a monitor watches: that of Python, C code and subprocesses."];
    return h("div", { class: "empty" }, h("strong", {}, title), h("p", {}, text));
  }

  focusFilter() {
    this.input.focus();
    this.input.select();
  }
}
