// What lies where: the trace as rows from top to bottom, each with the events that it shows in order of time.

const ROW = 20;
const HEAD = 22;
const GRAPH = 64;
const AXIS = 24;

// `key` tells a band of rows: what is pinned is laid once more, above the others.
function layRows(data, byActivity, closed, pinned = null) {
  const rows = [];
  let top = AXIS;
  const add = (row, height) => {
    rows.push({ ...row, top, height });
    top += height;
  };
  for (const process of data.processes) {
    const keyOf = (title) => `${process.file} ${title}`;
    const isShown = (title) => !pinned || pinned.has(keyOf(title));
    if (!pinned) add({ kind: "head", process, title: `${process.pid} · ${process.command}` }, HEAD);
    if (!pinned && closed.has(process.file)) continue;
    const bands = byActivity ? splitByActivity(data, process) : splitByThread(process);
    for (const band of bands) {
      if (!isShown(band.title)) continue;
      band.levels.forEach((events, level) => {
        add({ kind: "events", process, thread: band.thread, events, title: level ? "" : band.title, key: keyOf(band.title) }, ROW);
      });
      top += 4;
    }
    for (const [graph, lines] of groupSeries(process.series)) if (isShown(graph)) add({ kind: "series", process, lines, title: graph, key: keyOf(graph) }, GRAPH);
    for (const map of process.heatmaps) {
      const title = map.unit ? `${map.name} [${map.unit}]` : map.name;
      if (isShown(title)) add({ kind: "heatmap", process, map, title, key: keyOf(title) }, GRAPH);
    }
    if (!pinned) top += 6;
  }
  return { rows, height: top };
}

function splitByThread(process) {
  return process.threads.map((thread) => {
    const levels = [];
    for (let place = 0; place < thread.length; place++) (levels[thread.depth[place]] ??= []).push(place);
    return { thread, title: `${thread.name} ${thread.tid}`, levels: Array.from(levels, (level) => level ?? []) };
  });
}

// One band for each channel of each thread; events inside others of the same channel stand below them.
function splitByActivity(data, process) {
  const bands = [];
  for (const thread of process.threads) {
    const found = new Map();
    for (let place = 0; place < thread.length; place++) {
      const channel = thread.channel[place];
      if (!found.has(channel)) found.set(channel, { levels: [], ends: [] });
      const { levels, ends } = found.get(channel);
      while (ends.length && ends.at(-1) <= thread.start[place]) ends.pop();
      (levels[ends.length] ??= []).push(place);
      if (thread.duration[place] >= 0) ends.push(thread.start[place] + thread.duration[place]);
    }
    const rank = (channel) => (OWN_CHANNELS.indexOf(data.names[channel]) + 100) % 100;
    const several = process.threads.length > 1 ? ` · ${thread.name} ${thread.tid}` : "";
    for (const [channel, { levels }] of [...found].sort((a, b) => rank(a[0]) - rank(b[0]))) {
      bands.push({ thread, title: data.names[channel] + several, levels: Array.from(levels, (level) => level ?? []) });
    }
  }
  return bands;
}

function groupSeries(series) {
  const groups = new Map();
  for (const entry of series) {
    const name = entry.unit ? `${entry.graph} [${entry.unit}]` : entry.graph;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(entry);
  }
  return groups;
}
