// Ops added up by layer, module, source line, family, kind of op, phase or IPU.

const GROUPINGS = {
  op: ["Single ops", null],
  layer: ["Layer", (data, op) => layerOf(data.ops.text("module", op))],
  module: ["Module", (data, op) => data.ops.text("module", op)],
  line: ["Source line", (data, op) => data.ops.text("line", op)],
  kind: ["Kind of op", (data, op) => shortenOp(data.ops.text("op", op))],
  family: ["Family", (data, op) => data.ops.text("family", op)],
  phase: ["Phase", (data, op) => data.ops.text("phase", op)],
  ipu: ["IPU", (data, op) => `IPU ${data.ops.ipu[op]}`],
};

// The module up to its last index: "encoder.layer.3.attention.self" -> "encoder.layer.3". Without one, its first two names.
function layerOf(module) {
  const indexed = /^(.*\.\d+)(?=\.|$)/.exec(module);
  return indexed ? indexed[1] : module.split(".").slice(0, 2).join(".");
}

// Group -> sums over its ops. Cycles are of a call; FLOPs, moved and written bytes of one execution.
function sumGroups(data, keyOf, list) {
  const { ops } = data;
  const exchange = data.cyclesInKind("exchange");
  const groups = new Map();
  for (const op of list) {
    const key = keyOf(data, op);
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { key, ops: [], cycles: 0, once: 0, exchange: 0, flops: 0, moved: 0, written: 0, peakCycles: 0, peak: 0 }));
    const cycles = data.callCycles(op);
    group.ops.push(op);
    group.cycles += cycles;
    group.once += ops.cycles[op];
    group.exchange += exchange[op];
    group.flops += ops.flops[op];
    group.moved += ops.moved_bytes[op];
    group.written += data.writtenBytes[op];
    if (ops.share_of_peak[op] >= 0) {
      group.peakCycles += ops.cycles[op];
      group.peak += ops.share_of_peak[op] * ops.cycles[op];
    }
  }
  return groups;
}

function makeGroupTable(data, grouping, list, { sort, descending, onSort, onPick }) {
  const [title, keyOf] = GROUPINGS[grouping];
  const groups = [...sumGroups(data, keyOf, list).values()];
  const whole = wholeCycles(data);
  const theirs = data.other ? sumGroups(data.other, keyOf, Array.from({ length: data.other.ops.length }, (_, op) => op)) : null;
  const most = groups.reduce((high, group) => Math.max(high, group.cycles), 1);
  const peakOf = (row) => (row.peakCycles ? row.peak / row.peakCycles : -1);
  const ipus = (row) => new Set(row.ops.map((op) => data.ops.ipu[op])).size;
  const columns = [
    { key: grouping, label: title, help: explainHeading({ label: title }) ?? "Ops with the same of this are added up; a click lists them", value: (row) => row.key, cell: (row) => (grouping === "line" ? make("span", { class: "source", title: shortenText(row.key, 2000), text: row.key ? shortenText(shortenLine(row.key), 60) : "no line" }) : makePath(row.key || "no module")) },
    { key: "ops", label: "Ops", number: true, value: (row) => row.ops.length, cell: (row) => formatWhole(row.ops.length) },
    { key: "share", label: "Of a call", number: true, value: (row) => row.cycles / whole, cell: (row) => make("span", {}, formatShare(row.cycles / whole), makeMeter(row.cycles / most)) },
    { key: "cycles", label: "Cycles a call", number: true, value: (row) => row.cycles, cell: (row) => formatWhole(row.cycles) },
    { key: "microseconds", label: "Time a call", number: true, value: (row) => row.cycles, plain: (row) => data.microseconds(row.cycles), cell: (row) => formatTime(data.microseconds(row.cycles)) },
    ...(theirs ? [
      { key: "cycles_other", label: `Cycles, ${nameReports(data)[1]}`, help: GLOSSARY["Cycles, other report"], number: true, value: (row) => theirs.get(row.key)?.cycles ?? 0, cell: (row) => formatWhole(theirs.get(row.key)?.cycles ?? 0) },
      { key: "change", label: "Change", number: true, value: (row) => Math.abs((theirs.get(row.key)?.cycles ?? 0) - row.cycles), plain: (row) => (theirs.get(row.key)?.cycles ?? 0) - row.cycles, cell: (row) => makeChange(row.cycles, theirs.get(row.key)?.cycles ?? 0) },
    ] : []),
    { key: "exchange", label: "Exchange", number: true, value: (row) => (row.once ? row.exchange / row.once : 0), cell: (row) => (row.once ? formatShare(row.exchange / row.once) : "–"), title: () => "share of these cycles that is exchange" },
    { key: "flops", label: "FLOPs", number: true, value: (row) => row.flops, cell: (row) => (row.flops ? formatCount(row.flops) : "–") },
    { key: "peak", label: "Of peak", number: true, value: peakOf, plain: (row) => (peakOf(row) < 0 ? "" : peakOf(row)), cell: (row) => (peakOf(row) < 0 ? "–" : formatShare(peakOf(row))) },
    { key: "moved", label: "Moved", number: true, value: (row) => row.moved, cell: (row) => (row.moved ? formatBytes(row.moved) : "–") },
    { key: "written", label: "Written", number: true, value: (row) => row.written, cell: (row) => (row.written ? formatBytes(row.written) : "–"), title: () => "bytes of the variables that these ops make" },
    ...(data.memory.length > 1 ? [{ key: "ipus", label: "IPUs", number: true, value: ipus, cell: (row) => formatWhole(ipus(row)) }] : []),
  ];
  const place = columns.findIndex((column) => column.key === sort);
  return { groups, ...makeTable({ caption: `Operations by ${title.toLowerCase()}`, columns, rows: groups, sort: place >= 0 ? place : theirs ? columns.findIndex((column) => column.key === "change") : 2, descending, portion: 150, filter: false, onSort: (at, down) => onSort(columns[at].key, down), onPick }) };
}

// Of several IPUs the cycles are added up, as in the summary.
function wholeCycles(data) {
  if (data.memory.length < 2) return data.summary.timing.call_cycles || 1;
  return data.summary.shares.step_kinds.reduce((sum, entry) => sum + entry.call_cycles, 0) || 1;
}

function formatCount(value) {
  for (const [size, letter] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (value >= size) return `${trimNumber(value / size)} ${letter}`;
  return trimNumber(value);
}
