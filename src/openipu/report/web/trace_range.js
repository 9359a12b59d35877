// What lies in the visible part of the trace: cycles by kind of step and by op, cut at both ends.

// The cycles of all kinds and of idling add up to the length of the range.
function measureRange(data, line, from, to) {
  const { steps } = data;
  const [kinds, ops] = [new Map(), new Map()];
  let count = 0;
  let busy = 0;
  for (let place = line.at(from); place < line.length && line.starts[place] < to; place++) {
    const step = line.step[place];
    if (step < 0) continue;
    const start = line.starts[place];
    const cycles = Math.min(start + steps.cycles[step], to) - Math.max(start, from);
    if (cycles <= 0) continue;
    const kind = steps.text("kind", step);
    kinds.set(kind, (kinds.get(kind) ?? 0) + cycles);
    const op = steps.op[step];
    const known = ops.get(op) ?? { op, first: step, cycles: 0, steps: 0 };
    ops.set(op, { ...known, cycles: known.cycles + cycles, steps: known.steps + 1 });
    busy += cycles;
    count += 1;
  }
  return { kinds, ops: [...ops.values()], steps: count, busy, length: to - from };
}

// The legend, a sentence and a table that follow the visible range.
class RangeSums {
  constructor(data, pick) {
    this.data = data;
    this.legend = make("ul", { class: "legend", "aria-label": "Kinds of step in view" });
    this.sentence = make("p", { class: "hint", id: "trace-range", role: "status" });
    this.length = 1;
    const { ops } = data;
    this.table = makeTable({
      caption: "Ops in view", rows: [], sort: 2, portion: 10, onPick: (row) => pick(row.op, row.op < 0 ? row.first : -1),
      columns: [
        { label: "Op", value: (row) => (row.op < 0 ? "" : ops.text("op", row.op)), cell: (row) => (row.op < 0 ? "steps without an op" : shortenOp(ops.text("op", row.op))) },
        { label: "Module", value: (row) => (row.op < 0 ? "" : ops.text("module", row.op)), cell: (row) => makePath(row.op < 0 ? "–" : ops.text("module", row.op) || "–") },
        { label: "Cycles in view", key: "cycles_in_view", number: true, value: (row) => row.cycles, cell: (row) => formatWhole(row.cycles) },
        { label: "Of the view", key: "share_of_view", number: true, value: (row) => row.cycles / this.length, cell: (row) => formatShare(row.cycles / this.length) },
        { label: "Steps", number: true, value: (row) => row.steps, cell: (row) => formatWhole(row.steps) },
      ],
    });
    this.table.element.id = "ops-in-view";
    this.panel = makePanel("Ops in view", this.table.element);
  }

  show(line, kinds, [from, to], several) {
    const { data } = this;
    const found = measureRange(data, line, from, to);
    this.length = found.length || 1;
    const entry = (name, cycles, label = name) => make("li", {}, makeSwatch(name), make("span", { class: "name", text: `${label} ` }), make("b", { text: formatShare(cycles / this.length) }), ` ${formatTime(data.microseconds(cycles))}`);
    this.legend.replaceChildren(...kinds.map((kind) => entry(kind, found.kinds.get(kind) ?? 0)),
      ...(several ? [entry("idle", found.length - found.busy, "other IPUs' turn")] : []),
      make("li", {}, make("span", { class: "name", text: several ? `of what is in view, IPU ${line.ipu}` : "of what is in view" })));
    this.sentence.textContent = `In view: ${formatWhole(found.length)} cycles, ${formatTime(data.microseconds(found.length))}, from ${formatWhole(from)} to ${formatWhole(to)}; ` +
      `${countOf(found.steps, "step")} of ${countOf(found.ops.filter(({ op }) => op >= 0).length, "op")}${several ? ` on IPU ${line.ipu}` : ""}. Steps at the ends count as far as they are in view.`;
    this.table.setRows(found.ops);
  }
}
