// The data block of the page -> processes, threads and columns. The other end is system/page.py, which describes the layout.

async function readTrace(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const headLength = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headLength)));
  const begin = Math.ceil((4 + headLength) / 8) * 8;
  const open = ([type, offset, length]) =>
    type === "f8" ? new Float64Array(buffer, begin + offset, length) : new Int32Array(buffer, begin + offset, length);
  const processes = head.processes.map((process) => ({
    ...process,
    threads: process.threads.map((thread) => {
      const columns = ["channel", "label", "start", "duration", "depth", "own"];
      const opened = Object.fromEntries(columns.map((name) => [name, open(thread[name])]));
      return { ...thread, ...opened, length: opened.start.length, process };
    }),
    series: process.series.map((entry) => ({ ...entry, time: open(entry.time), value: open(entry.value) })),
    heatmaps: process.heatmaps.map((entry) => ({ ...entry, time: open(entry.time), counts: open(entry.counts) })),
  }));
  return { ...head, processes, span: Math.max(head.span_us, 1e-3) };
}

// The first place in a sorted column that is not below a value.
function findPlace(count, valueAt, value) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (valueAt(middle) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function formatTime(microseconds) {
  const size = Math.abs(microseconds);
  const show = (value, unit) => `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
  if (size >= 1e6) return show(microseconds / 1e6, "s");
  if (size >= 1e3) return show(microseconds / 1e3, "ms");
  return show(microseconds, "µs");
}

// A moment with as many digits as tell it from its neighbours on an axis.
function formatTick(microseconds, step) {
  const [unit, size] = microseconds >= 1e6 ? ["s", 1e6] : microseconds >= 1e3 ? ["ms", 1e3] : ["µs", 1];
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return microseconds ? `${(microseconds / size).toFixed(digits)} ${unit}` : "0";
}

const OWN_CHANNELS = ["capture", "plan", "compile", "data loading", "transfer", "run", "wait"];

// The name of the CSS variable with the colour of each channel.
function nameColours(names, channels) {
  const found = new Map();
  let users = 0;
  for (const channel of channels) {
    const name = names[channel];
    const own = OWN_CHANNELS.includes(name);
    found.set(channel, own ? `--c-${name.replaceAll(" ", "-")}` : `--u-${users++ % 6}`);
  }
  return found;
}

function makeElement(kind, text = "", attributes = {}) {
  const element = document.createElement(kind);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
