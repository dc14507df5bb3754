// A table whose rows, order and filter are the server's: this page only has what it shows.

import { h, icon, setText } from "./dom.js";

const STATES = {
  connected: "good", succeeded: "good", suspect: "warning", paused: "warning", draining: "warning", lost: "bad", error: "bad", critical: "bad", warning: "warning", away: "warning", cancelled: "",
};
const WORST_FIRST = ["bad", "warning", "good", ""];
// The agents of one host may have several: "connected; paused".
export const stateOf = (text) => text.startsWith("stuck?") ? "warning" : WORST_FIRST.find((kind) => text.split("; ").some((part) => STATES[part] === kind));
const LONG = 44; // characters: a sentence, which may take several lines, and has lines of its own on a phone
const HEADLINES = { workers: "name", clients: "session", progress: "name", tasks: "function", failures: "message", logs: "text", alerts: "text", settings: "name" };
// The column at the top of a row's card on a phone, where it is not the first one.
const WORDY = 16; // characters of a value: more have a line of their own on a phone
const CLAMPED = 200; // characters of a value: more are cut after some lines, where they take several

export class DataTable {
  // options: limit, sort, descending, hide [keys], compact (no tools), actions {open(values)}, fixedOrder, onRow(values, key), rowTitle, empty {icon, title, text}
  constructor(spec, options, changed) {
    Object.assign(this, { spec, options, changed });
    this.filter = "";
    this.sort = options.sort ?? spec.sort;
    this.descending = options.descending ?? spec.descending;
    this.offset = 0;
    this.limit = options.limit ?? 100;
    this.columns = spec.columns.map((column, index) => ({ ...column, index })).filter((column) => !options.hide?.includes(column.key));
    this.headline = HEADLINES[spec.name] ?? this.columns[0].key;
    this.rows = [];
    this.build();
  }

  build() {
    this.body = h("tbody");
    this.wider = h("button", { type: "button", class: "tool wider", hidden: true, onclick: () => { this.showsAll = !this.showsAll; this.fit(); } });
    this.heads = this.columns.map((column) => this.head(column));
    this.table = h("table", { "aria-label": this.spec.title }, h("thead", {}, h("tr", {}, this.heads, this.options.actions ? h("th", { scope: "col", class: "row-actions", "aria-label": "Actions" }) : null)), this.body);
    this.scroller = h("div", { class: "scroller", tabindex: "-1" }, this.table);
    this.empty = h("div", { class: "empty", hidden: true });
    this.element = h("div", { class: "card table-card" }, this.options.compact ? null : this.tools(), this.scroller, this.empty, this.options.compact ? this.wider : null);
    this.blank = new Set();
    this.hidden = new Set();
    this.resizing = new ResizeObserver(() => { if (this.room !== this.scroller.clientWidth) this.fit(); });
    this.resizing.observe(this.scroller);
    this.showSort();
  }

  // ---- columns that fit: those without values are hidden, and the least important ones until the others have room

  fit() {
    this.room = this.scroller.clientWidth;
    this.fitted = this.rows.length > 0 && this.room > 0;
    if (!this.fitted) return;
    this.blank = new Set(this.columns.filter((column, index) => index && column.key !== this.sort && this.isBlank(index)).map((column) => column.key));
    this.hideOnly(this.blank);
    const crowded = this.crowded();
    if (!this.showsAll) this.hideOnly(new Set([...this.blank, ...crowded]));
    this.wider.hidden = !crowded.length;
    this.wider.setAttribute("aria-pressed", String(Boolean(this.showsAll)));
    setText(this.wider, this.showsAll ? "Fewer columns" : `${crowded.length} more ${crowded.length === 1 ? "column" : "columns"}`);
  }

  // The keys of the columns that have no room. On telephones, where rows are cards, all have.
  crowded() {
    const crowded = [];
    let excess = this.hasCards() ? 0 : this.table.scrollWidth - this.room;
    for (const key of this.spec.expendable) {
      if (excess <= 0) break;
      const index = this.columns.findIndex((column) => column.key === key);
      if (index < 0 || key === this.sort || this.blank.has(key)) continue;
      crowded.push(key);
      excess -= this.heads[index].offsetWidth;
    }
    return crowded;
  }

  hasCards() { return getComputedStyle(this.table.tHead).display === "none"; }
  isBlank(index) { return this.rows.every((row) => row.cells[index].classList.contains("blank")); }

  hideOnly(keys) {
    this.hidden = keys;
    for (const cells of [this.heads, ...this.rows.map((row) => row.cells)]) this.columns.forEach((column, index) => { cells[index].hidden = keys.has(column.key); });
  }

  // After new values. Hidden columns return only with another order, page or width, so that none comes and goes.
  refit() {
    const appeared = this.columns.some((column, index) => this.blank.has(column.key) && !this.isBlank(index));
    const overflows = !this.showsAll && !this.hasCards() && this.table.scrollWidth > this.room;
    if (!this.fitted || appeared || overflows) this.fit();
  }

  head(column) {
    if (this.options.fixedOrder) return h("th", { scope: "col", "data-key": column.key, title: column.help, class: column.align === "right" ? "plain right" : "plain" }, column.title);
    const button = h("button", { type: "button", title: column.help, onclick: () => this.sortBy(column.key) }, column.title, h("i"));
    return h("th", { scope: "col", "data-key": column.key, class: column.align === "right" ? "right" : "" }, button);
  }

  tools() {
    this.input = h("input", {
      type: "search", placeholder: "Filter", "aria-label": `Filter ${this.spec.title.toLowerCase()}`, class: "filter", "aria-keyshortcuts": "/",
      oninput: () => { this.filter = this.input.value; this.offset = 0; this.changed(); },
      onkeydown: (event) => { if (event.key === "Escape") { this.input.value = ""; this.filter = ""; this.changed(); this.input.blur(); } },
    });
    this.count = h("span", { class: "count", "aria-live": "off" });
    const step = (title, text, move) => h("button", { type: "button", class: "tool", title, "aria-label": title, onclick: () => this.page(move) }, text);
    this.pager = h("span", { class: "pager", hidden: true },
      step("First page", "«", -Infinity), step("Previous page", "‹", -1), step("Next page", "›", 1), step("Last page", "»", Infinity));
    this.order = h("select", { class: "tool order", "aria-label": "Sort by", onchange: () => this.sortBy(this.order.value) }, this.columns.map((column) => h("option", { value: column.key }, `by ${column.title}`)));
    return h("div", { class: "table-tools" }, h("label", { class: "search" }, this.input, h("kbd", {}, "/")), this.order, this.wider, this.count, this.pager);
  }

  sortBy(key) {
    const column = this.spec.columns.find((each) => each.key === key);
    this.descending = this.sort === key ? !this.descending : column.align === "right" && !["id", "pid"].includes(column.kind);
    this.sort = key;
    this.offset = 0;
    this.showSort();
    this.changed();
  }

  showSort() {
    this.fitted = false;
    if (this.options.fixedOrder) return;
    if (this.order) this.order.value = this.sort;
    this.columns.forEach((column, index) => {
      const sorted = column.key === this.sort;
      const head = this.heads[index];
      if (sorted) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      setText(head.querySelector("i"), sorted ? (this.descending ? "▼" : "▲") : "");
    });
  }

  page(move) {
    const last = Math.max(0, Math.ceil(this.total / this.limit) - 1);
    const wanted = move === Infinity ? last : move === -Infinity ? 0 : this.offset / this.limit + move;
    this.offset = this.limit * Math.min(last, Math.max(0, wanted));
    this.scroller.scrollTop = 0;
    this.fitted = false;
    this.changed();
  }

  watch() {
    const { filter, sort, descending, offset, limit } = this;
    return { what: "table", table: this.spec.name, filter, sort, descending, offset, limit };
  }

  update(result) {
    this.total = result.total;
    if (this.offset && this.offset >= this.total) { this.offset = 0; this.changed(); }
    result.rows.forEach((row, index) => this.fill(this.row(index), row, result.keys[index], result.links?.[index] ?? ["", {}]));
    for (const extra of this.rows.splice(result.rows.length)) extra.element.remove();
    if (!this.options.compact) this.showCount(result);
    this.showEmpty(result);
    this.refit();
  }

  row(index) {
    if (!this.rows[index]) {
      const cells = this.columns.map((column) => h("td", { "data-key": column.key, "data-title": column.title, class: [column.align === "right" && "right", column.key === this.headline && "headline"].filter(Boolean).join(" "), hidden: this.hidden.has(column.key), style: { maxWidth: `${Math.max(20, column.width * 1.4)}ch` } }));
      const element = h("tr", {}, cells);
      this.rows[index] = { element, cells, shown: [], key: null };
      if (this.options.actions) element.append(this.actionsCell(this.rows[index]));
      this.makeClickable(this.rows[index]);
      this.body.append(element);
    }
    return this.rows[index];
  }

  actionsCell(row) {
    const open = (event) => { event.stopPropagation(); this.options.actions.open(row.values); };
    const button = h("button", { type: "button", class: "more", title: "Actions", "aria-label": "Actions", onclick: open, onkeydown: (event) => event.stopPropagation() }, "⋯");
    return h("td", { class: "row-actions" }, button);
  }

  makeClickable(row) {
    const choose = () => {
      if (this.options.onRow) this.options.onRow(row.values, row.key);
      else if (row.path) location.hash = `#/${row.path}`;
    };
    row.element.addEventListener("click", choose);
    row.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
      if (event.key === "ArrowDown") { event.preventDefault(); row.element.nextSibling?.focus(); }
      if (event.key === "ArrowUp") { event.preventDefault(); row.element.previousSibling?.focus(); }
    });
  }

  fill(row, values, key, [path, mentions]) {
    row.key = key;
    row.values = values;
    row.path = path;
    if (this.options.onRow || path) row.element.tabIndex = 0;
    else row.element.removeAttribute("tabindex");
    if (this.selected !== undefined) row.element.setAttribute("aria-selected", String(this.selected === key));
    this.columns.forEach((column, index) => {
      const value = values[column.index];
      const mention = mentions[column.index];
      const mark = `${Array.isArray(value) ? value.join("\0") : value}\0${mention ?? ""}`;
      if (row.shown[index] === mark) return;
      row.shown[index] = mark;
      this.fillCell(row.cells[index], column, value);
      if (mention) link(row.cells[index], mention);
    });
  }

  // A value is its text, or [text, share from 0 to 1], or [text, colour].
  fillCell(cell, column, value) {
    const [text, mark] = Array.isArray(value) ? value : [value, null];
    cell.title = text.length > 30 ? text : "";
    cell.classList.toggle("zero", text === "0" || text === "-");
    cell.classList.toggle("blank", text === "");
    cell.classList.toggle("long", column.width >= LONG);
    cell.classList.toggle("wordy", text.length > WORDY);
    const shown = text.length > CLAMPED ? h("span", { class: "clamped" }, text) : text;
    if (typeof mark === "number") return cell.replaceChildren(text, meter(mark, column.title.includes("%")));
    if (typeof mark === "string") return cell.replaceChildren(h("span", { class: "swatch", style: { background: mark } }), shown);
    if (["state", "status", "level"].includes(column.key)) {
      const kind = stateOf(text) ?? (column.key === "status" ? "bad" : "");
      return cell.replaceChildren(h("span", { class: `status ${kind}` }, text));
    }
    cell.replaceChildren(shown);
  }

  showCount(result) {
    const last = this.offset + result.rows.length;
    const paged = result.total > this.limit;
    const of = paged ? `${(this.offset + 1).toLocaleString("en-US")}–${last.toLocaleString("en-US")} of ` : "";
    setText(this.count, `${of}${result.total.toLocaleString("en-US")}${result.note}`);
    this.pager.hidden = !paged;
    const [first, previous, next, end] = this.pager.children;
    first.disabled = previous.disabled = this.offset === 0;
    next.disabled = end.disabled = last >= result.total;
  }

  showEmpty(result) {
    const empty = result.total === 0;
    this.empty.hidden = !empty;
    this.table.hidden = empty;
    if (!empty) return;
    const about = this.options.empty ?? { title: "Nothing here yet" };
    const [title, text] = this.filter ? ["Nothing matches", `No row contains “${this.filter}”.`] : [about.title, about.text ?? ""];
    const mark = `${title}\0${text}`;
    if (this.emptyShown === mark) return;
    this.emptyShown = mark;
    this.empty.replaceChildren(...[about.icon ? icon(about.icon) : null, h("strong", {}, title), h("p", {}, text)].filter(Boolean));
  }

  focusFilter() {
    this.input?.focus();
    this.input?.select();
  }
}

// The text of a cell leads to what it mentions; a click beside it, to the row's own page.
function link(cell, path) {
  const anchor = h("a", { href: `#/${path}`, class: "mention", tabindex: "-1", onclick: (event) => event.stopPropagation() });
  anchor.append(...cell.childNodes);
  cell.replaceChildren(anchor);
}

function meter(share, warns) {
  const part = Math.max(0, Math.min(1, share));
  return h("span", { class: "meter", "aria-hidden": "true" }, h("i", { class: warns && part > 0.9 ? "full" : "", style: { width: `${(100 * part).toFixed(0)}%` } }));
}
