// The trace of the report that is compared with: its phases and kinds of step. Both begin together and stand on one axis of
// time: a cycle of a slower clock is drawn longer.

class OtherTrace {
  static height = 62;

  constructor(data, clock) {
    this.data = data;
    const { lines, total } = buildTimelines(data);
    this.lines = lines;
    this.scale = clock / data.clock; // cycles of the first report's clock in one of its own
    this.schedules = { once: scheduleOnce(lines, total), call: scheduleCall(data, lines) };
    this.prepared = lines.map(() => null);
  }

  pick(isWhole) {
    return (isWhole && this.schedules.call) || this.schedules.once;
  }
  // On the axis of the first report.
  end(isWhole) {
    return this.pick(isWhole).total * this.scale;
  }

  prepare(index) {
    const line = this.lines[index];
    if (!line) return null;
    return (this.prepared[index] ??= { phases: buildLanes(this.data, line).modules[0] ?? [], sums: buildKindSums(this.data, line) });
  }

  draw(context, view, index, top, name, isWhole) {
    const own = this.prepare(index);
    const schedule = this.pick(isWhole);
    const time = formatTime(this.data.microseconds(schedule.total));
    context.fillStyle = themeColour("muted");
    context.textAlign = "left";
    context.fillText(own ? `${name}: ${shortenText(this.data.summary.name, 60)}, ${time}, ${formatWhole(schedule.total)} cycles` : `${name} has no such IPU`, view.margins.left, top + 12);
    if (!own) return;
    const panel = themeColour("panel");
    const stretched = stretchView(view, this.scale);
    schedule.visit(index, stretched, (block, part) => drawLane(context, part, this.lines[index], own.phases, top + 22, 14, (span) => ({ fill: colourOf(span.label), ink: panel, selected: false })));
    drawScheduledKinds(context, stretched, this.data, schedule, index, own.sums, top + 38, 22);
  }

  describe(view, index, x, name, isWhole) {
    const own = this.prepare(index);
    if (!own || x < view.margins.left) return null;
    const here = this.pick(isWhole).at(index, view.toValue(x) / this.scale);
    const line = this.lines[index];
    const step = here ? line.step[line.at(here.base)] : -1;
    if (view.toValue(x) >= this.end(isWhole)) return null;
    if (step < 0) return [name, ["idle", "", "idle"]];
    const { steps, ops } = this.data;
    const op = steps.op[step];
    return [`${name}, step ${formatWhole(step)}: ${steps.text("name", step)}`, [steps.text("kind", step), `${formatWhole(steps.cycles[step])} cycles`, steps.text("kind", step)],
      ["time", formatTime(this.data.microseconds(steps.cycles[step]))], ...(op >= 0 ? [[shortenOp(ops.text("op", op)), shortenText(ops.text("module", op), 60)]] : [])];
  }
}

// What changed most between the two traces, in time, of a call: modules of both.
function makeTraceDifferences(data) {
  const keyOf = (report, op) => `${report.ops.text("phase", op)}\n${layerOf(report.ops.text("module", op))}`;
  const sum = (report) => {
    const found = new Map();
    for (let op = 0; op < report.ops.length; op++) {
      const key = keyOf(report, op);
      found.set(key, (found.get(key) ?? 0) + report.microseconds(report.callCycles(op)));
    }
    return found;
  };
  const [own, theirs] = [sum(data), sum(data.other)];
  const rows = [...new Set([...own.keys(), ...theirs.keys()])].map((key) => ({ phase: key.split("\n")[0], layer: key.split("\n")[1], own: own.get(key) ?? 0, other: theirs.get(key) ?? 0 }));
  const [one, two] = nameReports(data);
  const table = makeTable({
    caption: "Where the time differs", rows: rows.filter((row) => row.own !== row.other), sort: 4, portion: 8,
    columns: [
      { label: "Layer", help: "Modules up to their last index, such as encoder.layer.3", value: (row) => row.layer, cell: (row) => makePath(row.layer || "no module") },
      { label: "Phase", help: "Forward, backward or weight update", value: (row) => row.phase, cell: (row) => row.phase },
      { label: one, key: "own_microseconds", help: "Time of a call, all IPUs added up", number: true, value: (row) => row.own, cell: (row) => formatTime(row.own) },
      { label: two, key: "other_microseconds", help: "Time of a call, all IPUs added up", number: true, value: (row) => row.other, cell: (row) => formatTime(row.other) },
      { label: "Difference", key: "difference_microseconds", help: "Largest first, whichever way", number: true, value: (row) => Math.abs(row.other - row.own), plain: (row) => row.other - row.own, cell: (row) => make("span", {}, `${row.other > row.own ? "+" : "−"}${formatTime(Math.abs(row.other - row.own))} `, row.own ? makeChange(row.own, row.other, { format: formatTime }) : "new") },
    ],
  });
  table.element.id = "trace-differences";
  return makePanel("Where the time of a call differs, largest first", table.element);
}
