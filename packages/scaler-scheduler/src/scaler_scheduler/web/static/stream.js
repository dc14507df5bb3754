// The task stream: a row per worker, a bar per task. The server says which bars this many pixels can show.

import { h, setText } from "./dom.js";
import { clock, duration } from "./format.js";

const AXIS = 26;
const SHORTEST_SPAN = 1e-4;
const LONGEST_SPAN = 7 * 86400;
const ROW_HEIGHTS = [7, 30];
const LABEL_LIMIT = 200;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];
const FAILED = 1;
const CANCELED = 2;
const CLICK_PIXELS = 5; // a pointer that moves further drags

export class TaskStream {
  // options: small, span, end, changed(), onLegend(functions), onView(text), onOpen(path of a task's page)
  constructor(options) {
    Object.assign(this, options);
    this.end = options.end ?? null; // null: follows
    this.span = options.span ?? 30;
    this.firstRow = 0;
    this.highlighted = null;
    this.data = null;
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": "Task stream: arrows move, plus and minus zoom, space follows" });
    this.nothing = h("div", { class: "empty", hidden: true }, h("strong", {}, "No tasks in this time"), h("p"));
    this.element = h("div", { class: this.small ? "stream small" : "stream" }, this.canvas, this.nothing);
    this.tooltip = h("div", { class: "tooltip", hidden: true });
    document.body.append(this.tooltip);
    this.context = this.canvas.getContext("2d");
    this.resizing = new ResizeObserver(() => { this.draw(); this.changed(); });
    this.resizing.observe(this.element);
    this.pointers = new Map();
    this.listen();
  }

  // ---- what the server is asked for ----

  // Labels take the width that they need, within bounds that depend on the width of the page.
  get gutter() {
    const wide = this.element.clientWidth;
    return Math.round(Math.min(Math.max(wide < 620 ? 74 : 100, (this.labelWidth ?? 0) + 24), Math.max(96, wide * 0.28)));
  }
  get plotWidth() { return Math.max(50, this.element.clientWidth - this.gutter - 10); }
  get plotHeight() { return Math.max(20, this.element.clientHeight - AXIS - 6); }

  get rowHeight() {
    const [low, high] = ROW_HEIGHTS;
    return Math.min(high, Math.max(low, this.plotHeight / Math.max(1, this.data?.head.total_rows ?? 1)));
  }

  get shownRows() { return Math.max(1, Math.floor(this.plotHeight / ROW_HEIGHTS[0])); }

  watch() {
    return {
      what: "stream", end: this.end, span: this.span, width: Math.round(this.plotWidth * Math.min(2, devicePixelRatio)),
      first: this.firstRow, rows: this.shownRows,
    };
  }

  take(head, buffer) {
    const count = head.count;
    let at = 0;
    const column = (Kind) => { const view = new Kind(buffer, at, count); at += view.byteLength; return view; };
    this.data = {
      head, serials: column(BigUint64Array), x0: column(Float32Array), x1: column(Float32Array), busy: column(Float32Array),
      rows: column(Uint32Array), functions: column(Uint32Array), counts: column(Uint32Array), statuses: column(Uint8Array),
    };
    this.parts = new Map();
    for (const part of head.parts) this.parts.set(part[0], [...(this.parts.get(part[0]) ?? []), part]);
    this.latest = head.latest;
    this.measureLabels(head.rows);
    if (head.total_rows && this.firstRow >= head.total_rows) this.firstRow = 0;
    if (!this.small && this.element.parentElement) this.element.parentElement.style.maxHeight = `${Math.max(300, AXIS + 14 + head.total_rows * ROW_HEIGHTS[1])}px`;
    this.onLegend?.(head.functions, new Set(head.parts.map(([, name]) => name)));
    this.draw();
    if (this.hovered) this.hover(this.hovered);
  }

  measureLabels(rows) {
    const mark = rows.map(([label]) => label).join("\0");
    if (mark === this.labelsMeasured) return;
    this.labelsMeasured = mark;
    this.context.font = "500 11px Inter, system-ui, sans-serif";
    this.labelWidth = Math.max(0, ...rows.map(([label]) => this.context.measureText(label.slice(0, LABEL_LIMIT)).width));
  }

  // ---- the part of time that is shown ----

  get stop() { return this.end ?? this.data?.head.stop ?? Date.now() / 1000; }

  follow() {
    this.end = null;
    this.moved();
  }

  // With this moment in the middle.
  goTo(time) {
    this.end = Math.min(time + this.span / 2, this.latest ?? Infinity);
    this.moved();
  }

  showAll() {
    if (!this.data) return;
    const { oldest, latest } = this.data.head;
    if (oldest === null) return;
    this.span = Math.max(0.01, (latest - oldest) * 1.02);
    this.end = latest + this.span * 0.01;
    this.moved();
  }

  zoom(factor, share = 1) {
    const at = this.stop - this.span * (1 - share);
    const wanted = Math.min(LONGEST_SPAN, Math.max(SHORTEST_SPAN, this.span * factor));
    if (this.end !== null || share < 0.97) this.end = at + wanted * (1 - share);
    this.span = wanted;
    this.moved();
  }

  pan(seconds) {
    this.end = this.stop + seconds;
    if (this.latest && this.end > this.latest + this.span * 0.1) this.end = seconds > 0 ? null : this.end;
    this.moved();
  }

  scroll(rows) {
    const total = this.data?.head.total_rows ?? 0;
    const fit = Math.floor(this.plotHeight / this.rowHeight);
    this.firstRow = Math.max(0, Math.min(Math.max(0, total - fit), this.firstRow + rows));
    this.moved();
  }

  setSpan(seconds) {
    this.span = seconds;
    this.moved();
  }

  moved() {
    this.draw();
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.changed(), 40);
  }

  // ---- hands ----

  listen() {
    if (this.small) {
      const open = () => { location.hash = "#/stream"; };
      this.canvas.addEventListener("click", open);
      this.canvas.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
      return;
    }
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) this.canvas.addEventListener(kind, (event) => this.up(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("dblclick", () => this.follow());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event) {
    event.preventDefault();
    if (event.shiftKey && !event.deltaX) return this.scroll(Math.sign(event.deltaY) * 3);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan((event.deltaX / this.plotWidth) * this.span);
    this.zoom(Math.exp(event.deltaY * 0.0016), this.shareAt(event.offsetX));
  }

  shareAt(x) { return Math.min(1, Math.max(0, (x - this.gutter) / this.plotWidth)); }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.rowsMoved = 0;
    this.pressed = { x: event.offsetX, y: event.offsetY };
    this.leave();
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.hover({ x: event.offsetX, y: event.offsetY, left: event.clientX, top: event.clientY });
    const others = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    if (others.length) {
      const distance = (point) => Math.max(20, Math.abs(point.x - others[0].x));
      const now = { x: event.offsetX, y: event.offsetY };
      this.zoom(distance(before) / distance(now), this.shareAt((now.x + others[0].x) / 2));
    } else {
      this.pan(-((event.offsetX - before.x) / this.plotWidth) * this.span);
      this.rowsMoved += (before.y - event.offsetY) / this.rowHeight;
      const whole = Math.trunc(this.rowsMoved);
      if (whole) { this.rowsMoved -= whole; this.scroll(whole); }
    }
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    const pressed = this.pressed;
    this.pressed = null;
    if (event.type !== "pointerup" || !pressed || Math.abs(event.offsetX - pressed.x) + Math.abs(event.offsetY - pressed.y) > CLICK_PIXELS) return;
    this.open({ x: event.offsetX, y: event.offsetY, left: event.clientX, top: event.clientY });
  }

  // The page of the task under the pointer: at once if it runs, else when scaler_ui has said which one it is.
  open(point) {
    const bar = this.barAt(point.x, point.y);
    const open = bar === null ? this.openAt(point.x, point.y) : null;
    if (open) return this.onOpen?.(open.path);
    if (bar === null) return;
    this.opening = String(this.data.serials[bar]);
    this.hover(point);
    if (this.path) this.onOpen?.(this.path);
  }

  leave() {
    this.hovered = null;
    this.hide();
  }

  key(event) {
    const part = this.span * (event.shiftKey ? 1 : 0.15);
    const actions = {
      ArrowLeft: () => this.pan(-part), ArrowRight: () => this.pan(part), ArrowUp: () => this.scroll(-1), ArrowDown: () => this.scroll(1),
      PageUp: () => this.scroll(-10), PageDown: () => this.scroll(10), "+": () => this.zoom(0.7, this.end === null ? 1 : 0.5), "=": () => this.zoom(0.7, this.end === null ? 1 : 0.5),
      "-": () => this.zoom(1.4, this.end === null ? 1 : 0.5), " ": () => this.follow(), End: () => this.follow(), Home: () => this.showAll(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  // ---- what is under the pointer ----

  hover(point) {
    this.hovered = point;
    const bar = this.barAt(point.x, point.y);
    const open = bar === null ? this.openAt(point.x, point.y) : null;
    if (open) {
      this.asked = null;
      return this.showFacts(open.name, this.openColour(open), open.facts, point);
    }
    if (bar === null) return this.hide();
    const serial = String(this.data.serials[bar]);
    if (this.asked !== serial) {
      this.asked = serial;
      this.opening = this.opening === serial ? serial : null;
      // The server does not say again what this page has.
      [this.facts, this.path] = String(this.known?.serial) === serial ? [this.known.facts, this.known.path] : [null, null];
      this.changed();
    }
    this.showTooltip(bar, point);
  }

  barAt(x, y) {
    if (!this.data || x < this.gutter || y < AXIS) return null;
    const row = this.firstRow + Math.floor((y - AXIS) / this.rowHeight) - this.data.head.first;
    let nearest = null;
    let least = 3.999;
    for (let index = 0; index < this.data.rows.length; index++) {
      if (this.data.rows[index] !== row) continue;
      const [left, right] = this.place(index);
      const off = x < left ? left - x : x > right ? x - right : 0;
      if (off <= least) { least = off; nearest = index; }
    }
    return nearest;
  }

  openAt(x, y) {
    if (!this.data || x < this.gutter || y < AXIS) return null;
    const row = this.firstRow + Math.floor((y - AXIS) / this.rowHeight) - this.data.head.first;
    return this.data.head.open.findLast((each) => {
      const [left, right] = this.edges(each.x0, each.x1);
      return each.row === row && x >= left - 2 && x <= right + 2;
    }) ?? null;
  }

  openColour(open) { return open.colour; }

  watchTask() { return this.asked ? { what: "task", serial: Number(this.asked) } : null; }

  takeTask(result) {
    this.known = result;
    if (String(result.serial) !== this.asked) return;
    this.facts = result.facts;
    this.path = result.path;
    if (this.opening === this.asked) { this.opening = null; return this.onOpen?.(this.path); }
    if (this.hovered) this.hover(this.hovered);
  }

  showTooltip(bar, point) {
    const { functions, counts, busy, statuses, head } = this.data;
    const known = head.functions[functions[bar]];
    const many = counts[bar] > 1;
    const rows = many ? [["tasks", counts[bar].toLocaleString("en-US")], ["busy", `${(100 * busy[bar]).toFixed(0)}%`], ["worst", ["succeeded", "failed", "cancelled"][statuses[bar]]]] : [];
    const facts = [...rows, ...(this.facts ?? []).map(([key, value]) => [many && key === "task" ? "longest" : key, value])];
    this.showFacts(known?.[0] ?? "?", this.colourOf(bar), facts, point);
  }

  showFacts(text, colour, facts, point) {
    const name = h("b", {}, h("span", { class: "swatch", style: { background: colour } }), h("span", {}, text));
    this.tooltip.replaceChildren(name, h("dl", {}, facts.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])));
    this.tooltip.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.tooltip;
    this.tooltip.style.left = `${Math.max(4, Math.min(innerWidth - width - 8, point.left + 14))}px`;
    this.tooltip.style.top = `${point.top + 18 + height > innerHeight ? Math.max(4, point.top - height - 12) : point.top + 18}px`;
  }

  hide() {
    this.tooltip.hidden = true;
    this.asked = null;
    this.facts = this.path = null;
  }

  // ---- painting ----

  // Left and right edge of a bar, wherever the time that is shown has moved since the server was asked.
  place(index) {
    return this.edges(this.data.x0[index], this.data.x1[index]);
  }

  edges(x0, x1) {
    const { head } = this.data;
    const start = this.stop - this.span;
    const scale = this.plotWidth / this.span;
    const second = (head.stop - head.start) / head.width;
    const left = this.gutter + (head.start + x0 * second - start) * scale;
    const right = this.gutter + (head.start + x1 * second - start) * scale;
    return [left, right];
  }

  colourOf(index) {
    return this.data.statuses[index] === FAILED && this.data.counts[index] === 1 ? this.colours.bad
      : this.data.head.functions[this.data.functions[index]]?.[1] ?? this.colours.muted;
  }

  draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => { this.drawing = null; this.paint(); });
  }

  paint() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const style = getComputedStyle(document.documentElement);
    const names = ["text", "muted", "faint", "grid", "border", "surface", "raised", "bad"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const context = this.context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "500 11px Inter, system-ui, sans-serif";
    context.textBaseline = "middle";
    this.paintAxis(context, width, height);
    if (this.data) {
      this.paintRows(context, width);
      this.paintBars(context);
    }
    this.say();
  }

  paintAxis(context, width, height) {
    const start = this.stop - this.span;
    const step = niceStep((this.span / this.plotWidth) * 92);
    const fraction = step < 1 ? Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)) : 0;
    context.fillStyle = this.colours.faint;
    context.strokeStyle = this.colours.grid;
    context.textAlign = "center";
    context.beginPath();
    for (let time = Math.ceil(start / step) * step; time <= this.stop; time += step) {
      const x = Math.round(this.gutter + ((time - start) / this.span) * this.plotWidth) + 0.5;
      context.moveTo(x, AXIS - 4);
      context.lineTo(x, height);
      if (x > this.gutter + 20 && x < width - 30) context.fillText(clock(time, fraction), x, AXIS / 2);
    }
    context.stroke();
  }

  paintRows(context, width) {
    const { head } = this.data;
    const tall = this.rowHeight;
    context.textAlign = "left";
    let host = null;
    for (let index = 0; index < head.rows.length; index++) {
      const y = AXIS + (head.first + index - this.firstRow) * tall;
      if (y < AXIS - 1 || y > AXIS + this.plotHeight) continue;
      const row = head.rows[index];
      if (row[1] !== host) {
        context.fillStyle = this.colours.border;
        if (index) context.fillRect(0, Math.round(y), width, 1);
        host = row[1];
        if (tall < 9) this.paintLabel(context, host, y + 6);
      }
      if (tall >= 12) this.paintLabel(context, row[0], y + tall / 2);
      else if (tall >= 9) this.paintLabel(context, row[0], y + tall / 2, 8);
    }
  }

  paintLabel(context, text, y, size = 11) {
    context.fillStyle = this.colours.muted;
    context.font = `500 ${size}px Inter, system-ui, sans-serif`;
    context.fillText(fitted(context, text, this.gutter - 22), 14, y + 0.5);
    context.font = "500 11px Inter, system-ui, sans-serif";
  }

  paintBars(context) {
    const { data, colours } = this;
    const tall = this.rowHeight;
    const gap = tall > 12 ? 2 : tall > 8 ? 1 : 0.5;
    context.save();
    context.beginPath();
    context.rect(this.gutter, AXIS, this.plotWidth + 2, this.plotHeight + 4);
    context.clip();
    const rounded = tall > 14;
    for (const open of data.head.open) this.paintOpen(context, open, tall, gap);
    for (let index = 0; index < data.rows.length; index++) {
      const y = AXIS + (data.head.first + data.rows[index] - this.firstRow) * tall;
      const [left, right] = this.place(index);
      if (right < this.gutter || y < AXIS - 0.5) continue;
      const status = data.statuses[index];
      const single = data.counts[index] === 1;
      let wide = right - left;
      if (single && wide > 3) wide -= 0.8;
      wide = Math.max(wide, status ? 2 : 0.7);
      const known = data.head.functions[data.functions[index]];
      const dimmed = this.highlighted !== null && !this.highlighted.has(data.functions[index]);
      context.globalAlpha = dimmed ? 0.1 : single ? 1 : 0.3 + 0.7 * data.busy[index];
      context.fillStyle = single && status === FAILED ? colours.bad : known?.[1] ?? colours.muted;
      if (single && status === CANCELED) context.fillStyle = "#8c8c8c";
      if (rounded && wide > 5) {
        context.beginPath();
        context.roundRect(left, y + gap, wide, tall - 2 * gap, 3);
        context.fill();
      } else context.fillRect(left, y + gap, wide, tall - 2 * gap);
      for (const part of this.parts.get(index) ?? []) this.paintPart(context, part, left + wide, y + gap, tall - 2 * gap, dimmed);
      if (status) this.paintMark(context, status, single, left, y + gap, wide, tall - 2 * gap, dimmed);
    }
    context.restore();
  }

  // Fetching, loading and storing have other shades than running.
  paintPart(context, [, name, x0, x1], end, y, tall, dimmed) {
    const [left, right] = this.edges(x0, x1);
    const [colour, opacity] = this.data.head.tints[name];
    context.globalAlpha = dimmed ? 0.1 * opacity : opacity;
    context.fillStyle = colour;
    context.fillRect(left, y, Math.max(0.7, Math.min(right, end) - left), tall);
  }

  // The bar of a task that runs is pale and has no right edge.
  paintOpen(context, open, tall, gap) {
    const y = AXIS + (this.data.head.first + open.row - this.firstRow) * tall + gap;
    const [left, right] = this.edges(open.x0, open.x1);
    if (right < this.gutter || y < AXIS - 0.5) return;
    const high = tall - 2 * gap;
    const dimmed = this.highlighted !== null && !this.highlighted.has(open.function);
    context.fillStyle = context.strokeStyle = this.openColour(open);
    context.globalAlpha = dimmed ? 0.05 : 0.22;
    context.fillRect(left, y, right - left, high);
    context.globalAlpha = dimmed ? 0.15 : 1;
    context.lineWidth = tall > 12 ? 1.5 : 1;
    context.beginPath();
    context.moveTo(right, y + 0.5);
    context.lineTo(left + 0.5, y + 0.5);
    if (open.x0 > 0) context.lineTo(left + 0.5, y + high - 0.5);
    else context.moveTo(left + 0.5, y + high - 0.5);
    context.lineTo(right, y + high - 0.5);
    context.stroke();
    const from = Math.max(left, this.gutter) + 6;
    if (tall < 14 || right - from < 40) return;
    context.fillStyle = this.colours.text;
    context.textAlign = "left";
    context.fillText(fitted(context, open.stuck ? `${open.name} (stuck?)` : open.name, right - from - 4), from, y + high / 2 + 0.5);
  }

  // Failures carry a band on their lower edge and cancels a stripe, so that colour is not all that tells.
  paintMark(context, status, single, left, y, wide, tall, dimmed) {
    context.globalAlpha = dimmed ? 0.15 : 1;
    const failed = status === FAILED;
    if (!single) {
      context.fillStyle = failed ? this.colours.bad : "#8c8c8c";
      context.fillRect(left, y + tall * 0.68, wide, tall * 0.32);
    } else if (wide > 9 && tall > 9) {
      context.strokeStyle = "#ffffffd0";
      context.lineWidth = 1.6;
      const [x, middle, reach] = [left + wide / 2, y + tall / 2, Math.min(3.5, tall / 4)];
      context.beginPath();
      if (failed) { context.moveTo(x - reach, middle - reach); context.lineTo(x + reach, middle + reach); context.moveTo(x + reach, middle - reach); }
      else context.moveTo(x - reach, middle + reach);
      if (failed) context.lineTo(x - reach, middle + reach);
      else context.lineTo(x + reach, middle - reach);
      context.stroke();
    }
  }

  say() {
    const empty = this.data !== null && this.data.head.count === 0 && this.data.head.open.length === 0;
    this.nothing.hidden = !empty || (this.small && this.element.clientHeight < 120);
    if (empty) setText(this.nothing.lastChild, this.data.head.hint);
    const following = this.end === null;
    this.onView?.({ following, span: duration(this.span), tasks: this.data?.head.tasks ?? 0, running: this.data?.head.open.length ?? 0 });
  }

  close() {
    this.resizing.disconnect();
    this.tooltip.remove();
    clearTimeout(this.asking);
  }
}

function niceStep(least) {
  if (least >= 1) return STEPS.find((step) => step >= least) ?? STEPS.at(-1) * Math.ceil(least / STEPS.at(-1));
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999);
}

// A name may be as long as its program wants: halves are tried, not one character less each time.
function fitted(context, text, width) {
  if (text.length < LABEL_LIMIT && context.measureText(text).width <= width) return text;
  let [fits, most] = [1, Math.min(text.length, LABEL_LIMIT)];
  while (fits < most) {
    const end = Math.ceil((fits + most) / 2);
    if (context.measureText(`${text.slice(0, end)}…`).width <= width) fits = end;
    else most = end - 1;
  }
  return `${text.slice(0, fits)}…`;
}
