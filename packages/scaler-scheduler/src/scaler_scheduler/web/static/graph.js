// The drawing of a graph: a box for each call, coloured by its state, an edge from each call to those that need it.

import { h, setText } from "./dom.js";
import { layered } from "./layout.js";

const STATES = ["waiting", "on hosts", "done", "failed", "cancelled"];
const [WAITING, HANDED, SUCCEEDED, FAILED] = [0, 1, 2, 3];
const NODE_WIDTH = 3.4;
const NODE_HEIGHT = 0.64;
const TEXT_FROM_SCALE = 17;
const LARGEST_FIT = 46;
const SCALES = [0.005, 240];
const CLICK_PIXELS = 5;
const EDGE_LIMIT = 20_000; // more are not drawn while all of them are in sight

export class GraphDrawing {
  // options: changed(), onOpen(task)
  constructor(options) {
    Object.assign(this, options, { signature: null, shape: null, states: "", camera: { x: 0, y: 0, scale: 40, fits: true }, pointers: new Map() });
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": "Drawing of the graph: arrows move, plus and minus zoom, f shows all of it" });
    this.note = h("div", { class: "empty", hidden: true }, h("strong", {}, "No drawing"), h("p", {}, "The calls of this graph are not known: it was submitted before this monitor watched, or so many others have followed."));
    this.legend = h("div", { class: "graph-legend", role: "status" });
    this.tooltip = h("div", { class: "tooltip", hidden: true });
    document.body.append(this.tooltip);
    this.element = h("div", { class: "drawing" }, this.canvas, this.legend, this.note);
    this.context = this.canvas.getContext("2d");
    this.resizing = new ResizeObserver(() => { if (this.camera.fits) this.fit(); this.draw(); });
    this.resizing.observe(this.element);
    this.listen();
  }

  close() {
    this.resizing.disconnect();
    this.tooltip.remove();
  }

  // What scaler_ui says: states each time, the shape when it is another one.
  take(result) {
    this.note.hidden = Boolean(result && !result.cut);
    if (!result) return;
    this.states = result.states;
    if (result.tasks) this.takeShape(result);
    if (result.cut) setText(this.note.lastChild, `This graph has ${result.count.toLocaleString("en-US")} calls: too many to draw.`);
    this.showLegend();
    this.draw();
  }

  takeShape({ signature, tasks, functions, names, ends }) {
    this.signature = signature;
    const place = new Map(tasks.map((task, index) => [task, index]));
    const [sources, targets] = [[], []];
    for (let at = 0; at < ends.length; at += 2) {
      const [node, needed] = [place.get(ends[at]), place.get(ends[at + 1])];
      if (node !== undefined && needed !== undefined) { sources.push(needed); targets.push(node); }
    }
    this.shape = { tasks, functions, names, sources, targets, ...layered(tasks.length, sources, targets) };
    this.fit();
    this.changed();
  }

  showLegend() {
    const counts = new Array(STATES.length).fill(0);
    for (const state of this.states) counts[Number(state)]++;
    const mark = counts.join();
    if (mark === this.legendShown) return;
    this.legendShown = mark;
    this.legend.replaceChildren(...STATES.map((name, state) => counts[state] && h("span", {}, h("i", { class: `node-state state-${state}` }), `${counts[state].toLocaleString("en-US")} ${name}`)).filter(Boolean));
  }

  // ---- what is in sight ----

  get size() { return [this.element.clientWidth, this.element.clientHeight]; }

  fit() {
    if (!this.shape) return;
    const [width, height] = this.size;
    const [left, top, right, bottom] = [-0.6, -1, this.shape.width + NODE_WIDTH - 0.4, this.shape.height + 0.6];
    const scale = Math.min(width / (right - left), (height - 30) / (bottom - top), LARGEST_FIT);
    this.camera = { x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.max(SCALES[0], scale), fits: true };
    this.draw();
  }

  zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const { camera } = this;
    const [placeX, placeY] = this.place(x, y);
    camera.scale = Math.min(SCALES[1], Math.max(SCALES[0], camera.scale * factor));
    const [width, height] = this.size;
    Object.assign(camera, { x: placeX - (x - width / 2) / camera.scale, y: placeY - (y - height / 2) / camera.scale, fits: false });
    this.draw();
  }

  pan(x, y) {
    this.camera.x -= x / this.camera.scale;
    this.camera.y -= y / this.camera.scale;
    this.camera.fits = false;
    this.draw();
  }

  place(x, y) {
    const [width, height] = this.size;
    return [(x - width / 2) / this.camera.scale + this.camera.x, (y - height / 2) / this.camera.scale + this.camera.y];
  }

  nodeAt(x, y) {
    if (!this.shape) return null;
    const [placeX, placeY] = this.place(x, y);
    const slack = 3 / this.camera.scale;
    for (let node = 0; node < this.shape.tasks.length; node++) {
      const left = this.shape.x[node];
      if (placeX >= left - slack && placeX <= left + NODE_WIDTH + slack && Math.abs(this.shape.y[node] - placeY) <= NODE_HEIGHT / 2 + slack) return node;
    }
    return null;
  }

  // ---- hands ----

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY); }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => { this.tooltip.hidden = true; });
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("keydown", (event) => { if (this.key(event)) event.preventDefault(); });
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.pressed = [event.offsetX, event.offsetY];
    this.tooltip.hidden = true;
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    const now = [event.offsetX, event.offsetY];
    if (!before) return this.hover(event);
    const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const distance = ([x, y]) => Math.max(20, Math.hypot(x - other[0], y - other[1]));
      this.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else this.pan(now[0] - before[0], now[1] - before[1]);
    this.pointers.set(event.pointerId, now);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    const pressed = this.pressed;
    this.pressed = null;
    if (event.type !== "pointerup" || !pressed || Math.abs(event.offsetX - pressed[0]) + Math.abs(event.offsetY - pressed[1]) > CLICK_PIXELS) return;
    const node = this.nodeAt(event.offsetX, event.offsetY);
    if (node !== null) this.onOpen(this.shape.tasks[node]);
  }

  hover(event) {
    const node = this.nodeAt(event.offsetX, event.offsetY);
    this.canvas.style.cursor = node === null ? "grab" : "pointer";
    this.tooltip.hidden = node === null;
    if (node === null) return;
    const [name, colour] = this.shape.names[this.shape.functions[node]];
    this.tooltip.replaceChildren(h("b", {}, h("span", { class: "swatch", style: { background: colour } }), h("span", {}, name)), h("dl", {}, h("dt", {}, "task"), h("dd", {}, String(this.shape.tasks[node])), h("dt", {}, "state"), h("dd", {}, STATES[Number(this.states[node])] ?? "")));
    this.tooltip.style.left = `${Math.max(4, Math.min(innerWidth - this.tooltip.offsetWidth - 8, event.clientX + 14))}px`;
    this.tooltip.style.top = `${Math.min(innerHeight - this.tooltip.offsetHeight - 8, event.clientY + 18)}px`;
  }

  // Whether the key was one of the drawing's.
  key(event) {
    const step = event.shiftKey ? 300 : 60;
    const actions = {
      f: () => this.fit(), Home: () => this.fit(), "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3),
      ...(event.target === this.canvas && { ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0), ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step) }),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return false;
    actions[event.key]();
    return true;
  }

  // ---- painting ----

  draw() {
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => { this.drawing = null; this.paint(); });
  }

  paint() {
    const [width, height] = this.size;
    if (!width || !height) return;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(["text", "muted", "faint", "strong-border", "surface", "raised", "accent", "good", "bad"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    if (!this.shape) return;
    this.paintEdges(width, height);
    this.paintNodes(width, height);
  }

  pixels(x, y) {
    const [width, height] = this.size;
    return [(x - this.camera.x) * this.camera.scale + width / 2, (y - this.camera.y) * this.camera.scale + height / 2];
  }

  paintEdges(width, height) {
    const { shape, context, camera } = this;
    context.strokeStyle = this.colours["strong-border"];
    context.lineWidth = Math.min(1.2, Math.max(0.4, camera.scale / 20));
    context.beginPath();
    const step = Math.max(1, Math.ceil(shape.sources.length / EDGE_LIMIT));
    for (let edge = 0; edge < shape.sources.length; edge += step) {
      const [x0, y0] = this.pixels(shape.x[shape.sources[edge]] + NODE_WIDTH, shape.y[shape.sources[edge]]);
      const [x1, y1] = this.pixels(shape.x[shape.targets[edge]], shape.y[shape.targets[edge]]);
      if (x1 < 0 || x0 > width || Math.max(y0, y1) < 0 || Math.min(y0, y1) > height) continue;
      context.moveTo(x0, y0);
      if (camera.scale < 8) context.lineTo(x1, y1);
      else context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
    }
    context.stroke();
  }

  paintNodes(width, height) {
    const { shape, context, camera } = this;
    const [wide, tall] = [Math.max(2, NODE_WIDTH * camera.scale), Math.max(1.5, NODE_HEIGHT * camera.scale)];
    const named = camera.scale >= TEXT_FROM_SCALE;
    context.font = `500 ${Math.min(13, camera.scale * 0.34).toFixed(1)}px Inter, system-ui, sans-serif`;
    context.textBaseline = "middle";
    for (let node = 0; node < shape.tasks.length; node++) {
      const [x, y] = this.pixels(shape.x[node], shape.y[node]);
      if (x > width || x + wide < 0 || y - tall > height || y + tall < 0) continue;
      const state = Number(this.states[node]);
      this.paintBox(x, y - tall / 2, wide, tall, state);
      if (named) this.paintName(node, x, y, wide, state);
    }
  }

  paintBox(x, y, wide, tall, state) {
    const { context, colours } = this;
    const filled = { [SUCCEEDED]: colours.good, [FAILED]: colours.bad, [HANDED]: colours.accent }[state] ?? (state === WAITING ? colours.raised : colours.faint);
    context.fillStyle = filled;
    context.beginPath();
    context.roundRect(x, y, wide, tall, Math.min(5, tall / 3));
    context.fill();
    if (state !== WAITING || tall < 4) return;
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    context.stroke();
  }

  paintName(node, x, y, wide, state) {
    const { context } = this;
    context.fillStyle = state === WAITING ? this.colours.text : this.colours.surface;
    context.save();
    context.beginPath();
    context.rect(x + 5, y - 20, wide - 10, 40);
    context.clip();
    context.fillText(this.shape.names[this.shape.functions[node]][0].slice(0, 60), x + 7, y + 0.5);
    context.restore();
  }
}
