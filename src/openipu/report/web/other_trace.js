// The trace of the report that is compared with: its phases and kinds of step, on the axis of the first.

class OtherTrace {
  static height = 62;

  constructor(data) {
    this.data = data;
    const { lines, total } = buildTimelines(data);
    this.lines = lines;
    // On the clock of its own machine a cycle may be longer: the axis is in cycles.
    this.total = total;
    this.prepared = lines.map(() => null);
  }

  prepare(index) {
    const line = this.lines[index];
    if (!line) return null;
    return (this.prepared[index] ??= { line, phases: buildLanes(this.data, line).modules[0] ?? [], sums: buildKindSums(this.data, line) });
  }

  draw(context, view, index, top, name) {
    const own = this.prepare(index);
    context.fillStyle = themeColour("muted");
    context.textAlign = "left";
    context.fillText(own ? `${name}: ${shortenText(this.data.summary.name, 60)}, ${formatWhole(this.total)} cycles` : `${name} has no such IPU`, view.margins.left, top + 12);
    if (!own) return;
    const panel = themeColour("panel");
    drawLane(context, view, own.line, own.phases, top + 22, 14, (span) => ({ fill: colourOf(span.label), ink: panel, selected: false }));
    drawKinds(context, view, this.data, own.line, own.sums, top + 38, 22);
  }

  describe(view, index, x, name) {
    const own = this.prepare(index);
    const time = view.toValue(x);
    if (!own || x < view.margins.left || time >= this.total) return null;
    const step = own.line.step[own.line.at(time)];
    if (step < 0) return [name, ["other IPUs' turn", "", "idle"]];
    const { steps, ops } = this.data;
    const op = steps.op[step];
    return [`${name}, step ${formatWhole(step)}: ${steps.text("name", step)}`, [steps.text("kind", step), `${formatWhole(steps.cycles[step])} cycles`, steps.text("kind", step)],
      ["time", formatTime(this.data.microseconds(steps.cycles[step]))], ...(op >= 0 ? [[shortenOp(ops.text("op", op)), shortenText(ops.text("module", op), 60)]] : [])];
  }
}
