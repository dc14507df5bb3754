// For the axes and legends of charts; all other numbers arrive written.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  let size = Math.max(0, value);
  for (const unit of UNITS) {
    if (size < 999.95 || unit === "PiB") return `${+size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
}

export function count(value) {
  return Math.abs(value) < 10 && value % 1 ? value.toFixed(1) : Math.round(value).toLocaleString("en-US");
}

export function short(value) {
  for (const [limit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= limit) return `${+(value / limit).toPrecision(3)}${letter}`;
  }
  return `${+value.toPrecision(3)}`;
}

export function percent(value) {
  return `${value.toFixed(value < 10 && value % 1 ? 1 : 0)}%`;
}

export function clock(time, withFraction = 0) {
  const rounded = withFraction ? Math.round(time * 10 ** withFraction) / 10 ** withFraction : Math.floor(time + 1e-6);
  const date = new Date(Math.floor(rounded + 1e-9) * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return withFraction ? text + rounded.toFixed(withFraction).slice(-withFraction - 1) : text;
}

// The date of a time, without the year.
export function day(time) {
  const date = new Date(time * 1000);
  return `${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
}

export function duration(seconds) {
  const size = Math.abs(seconds);
  if (size < 0.9995e-3) return `${+(seconds * 1e6).toPrecision(3)} µs`;
  if (size < 0.9995) return `${+(seconds * 1e3).toPrecision(3)} ms`;
  if (size < 90) return `${+seconds.toPrecision(3)} s`;
  return size < 5400 ? `${+(seconds / 60).toPrecision(3)} min` : `${+(seconds / 3600).toPrecision(3)} h`;
}

// [value on the axis, value in a legend]
export const KINDS = {
  count: [short, count],
  rate: [short, (value) => `${count(value)}/s`],
  bytes: [bytes, bytes],
  byte_rate: [bytes, (value) => `${bytes(value)}/s`],
  percent: [(value) => `${count(value)}%`, percent],
};
