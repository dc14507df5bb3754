// Elements without markup in strings: text is always text, whatever a task or a worker is called.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("viewBox", "0 0 20 20");
  image.setAttribute("class", "icon");
  image.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  image.append(path);
  return image;
}

export function sparkline() {
  const image = document.createElementNS(SVG, "svg");
  image.setAttribute("class", "sparkline");
  image.setAttribute("viewBox", "0 0 100 24");
  image.setAttribute("preserveAspectRatio", "none");
  image.setAttribute("aria-hidden", "true");
  const area = document.createElementNS(SVG, "path");
  const line = document.createElementNS(SVG, "path");
  area.setAttribute("class", "area");
  line.setAttribute("class", "line");
  image.append(area, line);
  const draw = (values) => {
    if (values.length < 2) return;
    const largest = Math.max(...values, 1e-9);
    const step = 100 / (values.length - 1);
    const points = values.map((value, index) => `${(index * step).toFixed(1)},${(23 - 21 * value / largest).toFixed(1)}`);
    line.setAttribute("d", `M${points.join("L")}`);
    area.setAttribute("d", `M0,24L${points.join("L")}L100,24Z`);
  };
  return { element: image, draw };
}

const ICONS = {
  output: "M3 4h14v12H3zM6 8l2 2-2 2M10 12h4",
  overview: "M3 3h6v8H3zM11 3h6v5h-6zM11 10h6v7h-6zM3 13h6v4H3z",
  stream: "M2 4h7M11 4h5M5 10h13M2 16h4M8 16h9",
  tasks: "M7 5h10M7 10h10M7 15h10M3 5h.01M3 10h.01M3 15h.01",
  functions: "M13 3c-3 0-3 2-3.500 5S8.500 17 6 17M6 9h8",
  graphs: "M4 4h4v4H4zM12 12h4v4h-4zM12 3h4v4h-4zM8 6h4M8 8l4 5",
  running: "M5 3l11 7-11 7z",
  actors: "M4 4h12v9h-7l-4 3v-3h-1z",
  alerts: "M10 3v1M5 14h10c-1-1-1.500-2-1.500-5a3.500 3.500 0 0 0-7 0c0 3-.500 4-1.500 5M8.500 16.500h3",
  waiting: "M10 3a7 7 0 1 0 0 14a7 7 0 1 0 0-14M10 6v4l3 2",
  failures: "M10 3l8 14H2zM10 8v4M10 14.500v.01",
  workers: "M3 4h14v5H3zM3 11h14v5H3zM6 6.500h.01M6 13.500h.01",
  processors: "M6 6h8v8H6zM8 3v3M12 3v3M8 14v3M12 14v3M3 8h3M3 12h3M14 8h3M14 12h3",
  objects: "M10 2l7 4v8l-7 4l-7-4V6zM3 6l7 4l7-4M10 10v8",
  memory: "M3 16V9M7.500 16V5M12 16v-5M16.500 16V3",
  clients: "M10 4a3 3 0 1 0 0 6a3 3 0 1 0 0-6M4 17c0-3 3-5 6-5s6 2 6 5",
  progress: "M3 6h14M3 6h9M3 10h14M3 10h5M3 14h14M3 14h12M12 4v4M8 8v4M15 12v4",
  settings: "M3 6h8M15 6h2M13 4v4M3 14h2M9 14h8M7 12v4",
};

// A field for a time as people write it, which go(text) takes.
export function momentField(go) {
  return h("input", {
    type: "text", class: "tool moment", size: 12, maxlength: 40, autocomplete: "off", placeholder: "Go to 03:00", "aria-label": "Go to a time, such as 03:00 or 2023-11-14T03:00", title: "Go to a time (g), such as 03:00 or 2023-11-14T03:00, in the time zone of scaler_ui",
    onkeydown: (event) => {
      if (event.key === "Enter" && event.target.value.trim()) go(event.target.value.trim());
      if (event.key === "Escape" || event.key === "Enter") event.target.blur();  // keys act on the view again
    },
  });
}
