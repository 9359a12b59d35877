// What lies between two times of the trace: cycles by kind of step and by op, cut at both ends.

// The cycles of all kinds and of idling add up to the length of the range. `working`: cycles, weighted by the tiles at work.
function measureRange(data, line, from, to) {
  const { steps } = data;
  const [kinds, ops] = [new Map(), new Map()];
  const sums = { steps: 0, busy: 0, working: 0 };
  for (let place = line.at(from); place < line.length && line.starts[place] < to; place++) {
    const step = line.step[place];
    if (step < 0) continue;
    const start = line.starts[place];
    const cycles = Math.min(start + steps.cycles[step], to) - Math.max(start, from);
    if (cycles <= 0) continue;
    const kind = steps.text("kind", step);
    const working = cycles * balanceOf(data, step);
    kinds.set(kind, (kinds.get(kind) ?? 0) + cycles);
    const op = steps.op[step];
    let known = ops.get(op);
    if (!known) ops.set(op, (known = { op, first: step, cycles: 0, steps: 0, working: 0 }));
    known.cycles += cycles;
    known.steps += 1;
    known.working += working;
    sums.busy += cycles;
    sums.working += working;
    sums.steps += 1;
  }
  return { ...sums, kinds, ops: [...ops.values()], length: to - from };
}

// The legend, a sentence and a table of what is in view, or of the range that is selected in it.
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
        { label: "Op", help: "A node of the graph, as your framework names it", value: (row) => (row.op < 0 ? "" : ops.text("op", row.op)), cell: (row) => (row.op < 0 ? "steps without an op" : shortenOp(ops.text("op", row.op))) },
        { label: "Module", help: "The layer of the model that the op belongs to", value: (row) => (row.op < 0 ? "" : ops.text("module", row.op)), cell: (row) => makePath(row.op < 0 ? "–" : ops.text("module", row.op) || "–") },
        { label: "Cycles in view", help: "Cycles of its steps as far as they are in view, or selected", key: "cycles_in_view", number: true, value: (row) => row.cycles, cell: (row) => formatWhole(row.cycles) },
        { label: "Time", key: "microseconds_in_view", help: "The same cycles on this machine's clock", number: true, value: (row) => row.cycles, plain: (row) => data.microseconds(row.cycles), cell: (row) => formatTime(data.microseconds(row.cycles)) },
        { label: "Of the view", help: "Share of the time in view, or selected", key: "share_of_view", number: true, value: (row) => row.cycles / this.length, cell: (row) => formatShare(row.cycles / this.length) },
        { label: "Tile balance", help: "Mean of all tiles of the IPU over the busiest one: 100 % if no tile idles", key: "tile_balance", number: true, value: (row) => row.working / row.cycles, cell: (row) => formatShare(row.working / row.cycles) },
        { label: "Steps", help: "Executions of its steps: compute sets, exchanges, syncs", number: true, value: (row) => row.steps, cell: (row) => formatWhole(row.steps) },
      ],
    });
    this.table.element.id = "ops-in-view";
    this.title = make("h2", { text: "Ops in view" });
    this.panel = make("section", { class: "panel" }, this.title, this.table.element);
  }

  // where: {schedule, place (of the IPU), kinds, range, several, isSelected, isWhole}
  show({ schedule, place, kinds, range: [from, to], several, isSelected, isWhole }) {
    const { data } = this;
    const found = schedule.measure(data, place, from, to);
    const { ipu } = schedule.lines[place];
    this.length = found.length || 1;
    const entry = (name, cycles, label = name) => make("li", {}, makeSwatch(name), make("span", { class: "name", text: `${label} ` }), make("b", { text: formatShare(cycles / this.length) }), ` ${formatTime(data.microseconds(cycles))}`);
    const what = isSelected ? "of the selection" : "of what is in view";
    this.legend.replaceChildren(...kinds.map((kind) => entry(kind, found.kinds.get(kind) ?? 0)),
      ...(several ? [entry("idle", found.length - found.busy, isWhole ? "idle" : "other IPUs' turn")] : []),
      make("li", {}, make("span", { class: "name", text: several ? `${what}, IPU ${ipu}` : what })));
    this.sentence.textContent = `${isSelected ? "Selected" : "In view"}: ${formatWhole(found.length)} cycles, ${formatTime(data.microseconds(found.length))}, from ${formatWhole(from)} to ${formatWhole(to)}; ` +
      `${countOf(found.steps, "step")} of ${countOf(found.ops.filter(({ op }) => op >= 0).length, "op")}${several ? ` on IPU ${ipu}` : ""}, tile balance ${formatShare(found.busy ? found.working / found.busy : 0)}. ` +
      `Steps at the ends count as far as they are ${isSelected ? "selected" : "in view"}.`;
    this.title.textContent = isSelected ? "Ops in the selection" : "Ops in view";
    this.table.setRows(found.ops);
  }
}
