// A flame graph: a bar for each call, as wide as the time that it took, below the call that made it.

const HEIGHT = 19;
const LEAST_WIDTH = 1.5;

const hue = (text) => {
  let sum = 7;
  for (const each of text.replace(/ \(.*/, "")) sum = (31 * sum + each.codePointAt(0)) % 3600;
  return sum;
};

const time = (us) => us >= 1e6 ? `${(us / 1e6).toPrecision(3)} s` : us >= 1000 ? `${(us / 1000).toPrecision(3)} ms` : `${us} us`;

// A call is {name, us, children}; us includes its children.
export class FlameGraph {
  constructor(element) {
    this.element = element;
    this.wanted = "";
    element.classList.add("flame");
    element.tabIndex = 0;
    element.addEventListener("keydown", (event) => { if (event.key === "Escape") this.zoom(this.root); });
    new ResizeObserver(() => { if (this.width !== element.clientWidth) this.draw(); }).observe(element);
  }

  show(root) {
    this.root = root;
    const path = this.path ?? [];
    let call = root;
    for (const name of path) call = call?.children.find((each) => each.name === name);
    this.zoom(call ?? root, path);
  }

  // Highlight calls whose names contain a text.
  search(text) {
    this.wanted = text.toLowerCase();
    this.draw();
  }

  zoom(call, path = []) {
    this.shown = call;
    this.path = path;
    this.draw();
  }

  draw() {
    if (!this.root) return;
    this.width = this.element.clientWidth;
    this.bars = document.createDocumentFragment();
    this.depth = 0;
    let call = this.root;
    this.path.forEach((name, index) => {
      this.bar(call, 0, this.width, index, this.path.slice(0, index), true);
      call = call.children.find((each) => each.name === name);
    });
    this.level(this.shown, 0, this.width, this.path.length, this.path);
    this.element.style.height = `${(this.depth + 1) * HEIGHT}px`;
    this.element.replaceChildren(this.bars);
  }

  level(call, left, width, depth, path) {
    this.bar(call, left, width, depth, path, false);
    let at = left;
    for (const child of call.children) {
      const wide = call.us ? width * child.us / call.us : 0;
      if (wide >= LEAST_WIDTH) this.level(child, at, wide, depth + 1, [...path, child.name]);
      at += wide;
    }
  }

  bar(call, left, width, depth, path, isAbove) {
    this.depth = Math.max(this.depth, depth);
    const bar = document.createElement("div");
    const share = this.root.us ? 100 * call.us / this.root.us : 0;
    bar.textContent = width > 30 ? call.name : "";
    bar.title = `${call.name}\n${time(call.us)}, ${share.toFixed(1)} %`;
    bar.className = isAbove ? "above" : "";
    if (this.wanted && call.name.toLowerCase().includes(this.wanted)) bar.classList.add("found");
    Object.assign(bar.style, { left: `${left}px`, width: `${Math.max(1, width - 1)}px`, top: `${depth * HEIGHT}px` });
    bar.style.setProperty("--hue", String(20 + hue(call.name) % 40 + (call.name.includes("site-packages") ? 150 : 0)));
    bar.addEventListener("click", () => this.zoom(call, path));
    this.bars.append(bar);
  }
}
