// The places of a graph's nodes: in layers from left to right, each edge pointing right; the same as in the desktop
// monitor. Layers by longest path, order inside a layer by the mean place of the neighbours (a few sweeps both ways),
// places as near to the neighbours as order and distance allow.

const SWEEPS = 5;

// sources[i] -> targets[i] are edges. Returns x, y, width and height in units of the distance of two nodes of a layer.
export function layered(count, sources, targets) {
  if (!count) return { x: [], y: [], width: 0, height: 0 };
  const layers = layersOf(count, sources, targets);
  const columns = [];
  layers.forEach((layer, node) => (columns[layer] ??= []).push(node));
  for (let layer = 0; layer < columns.length; layer++) columns[layer] ??= [];
  const y = placesOf(layers, columns, sources, targets);
  const least = y.reduce((low, value) => Math.min(low, value), Infinity);
  let height = 0;
  for (let node = 0; node < count; node++) { y[node] -= least; height = Math.max(height, y[node] + 1); }
  const distance = Math.max(4.6, (1.4 * height) / columns.length);
  return { x: Float64Array.from(layers, (layer) => layer * distance), y, width: (columns.length - 1) * distance + 1, height };
}

// The length of the longest path that ends at each node. Nodes on a cycle, which no graph of tasks has, stay at 0.
export function layersOf(count, sources, targets) {
  const missing = new Int32Array(count);
  const next = neighbours(count, sources, targets);
  for (const target of targets) missing[target]++;
  const layers = new Int32Array(count);
  const ready = [];
  for (let node = 0; node < count; node++) if (!missing[node]) ready.push(node);
  for (let at = 0; at < ready.length; at++) {
    for (const target of next[ready[at]]) {
      layers[target] = Math.max(layers[target], layers[ready[at]] + 1);
      if (--missing[target] === 0) ready.push(target);
    }
  }
  for (let node = 0; node < count; node++) if (missing[node] > 0) layers[node] = 0;
  return layers;
}

function neighbours(count, from, to) {
  const found = Array.from({ length: count }, () => []);
  for (let edge = 0; edge < from.length; edge++) found[from[edge]].push(to[edge]);
  return found;
}

function placesOf(layers, columns, sources, targets) {
  const y = new Float64Array(layers.length);
  const tallest = columns.reduce((most, column) => Math.max(most, column.length), 0);
  for (const column of columns) column.forEach((node, place) => { y[node] = ((place + 0.5) * tallest) / column.length; });
  const needs = neighbours(layers.length, targets, sources);
  const neededBy = neighbours(layers.length, sources, targets);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const back = sweep % 2 === 1;
    for (const column of back ? [...columns].reverse() : columns) settle(column, back ? neededBy : needs, y);
  }
  return y;
}

// One layer, ordered by the mean place of the neighbours on one side.
function settle(column, near, y) {
  const wanted = column.map((node) => {
    const others = near[node];
    return others.length ? others.reduce((sum, other) => sum + y[other], 0) / others.length : y[node];
  });
  const order = column.map((_, place) => place).sort((one, other) => wanted[one] - wanted[other] || one - other);
  const places = spread(order.map((place) => wanted[place]));
  order.forEach((place, rank) => { y[column[place]] = places[rank]; });
}

// Places nearest to the ascending wanted ones (least squares) with a distance of one at least.
export function spread(wanted) {
  const blocks = [];
  wanted.forEach((value, place) => {
    let [mean, size] = [value - place, 1];
    while (blocks.length && blocks.at(-1)[0] >= mean) {
      const [before, count] = blocks.pop();
      mean = (before * count + mean * size) / (count + size);
      size += count;
    }
    blocks.push([mean, size]);
  });
  const places = [];
  for (const [mean, size] of blocks) for (let each = 0; each < size; each++) places.push(mean + places.length);
  return places;
}
