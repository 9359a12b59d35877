// Finding ops by text, and the facts of one op and one step.

// Ops whose name, kind, module or line contains the text.
function findOps(data, text) {
  const wanted = text.trim().toLowerCase();
  const hits = new Set();
  data.ops.strings.forEach((string, number) => string.toLowerCase().includes(wanted) && hits.add(number));
  const found = [];
  for (let op = 0; op < data.ops.length; op++) {
    if (["name", "op", "family", "module", "line", "phase", "provenance"].some((column) => hits.has(data.ops[column][op]))) found.push(op);
  }
  return found;
}

// {element, balance}: a chart of the step's tiles, to be closed with it.
function makeOpDetails(data, op, step) {
  const { ops, steps } = data;
  const balance = step < 0 ? null : makeBalanceChart(data, step);
  const stepFacts = step < 0 ? null : makePanel(`Step ${formatWhole(step)}`, makeFacts(`Step ${step}`, [
    ["Kind", `${steps.text("kind", step)}: ${steps.text("name", step)}`],
    ["Cycles", `${formatWhole(steps.cycles[step])} (${formatTime(data.microseconds(steps.cycles[step]))})`],
    ["Repeats", steps.repeats[step] > 1 ? formatWhole(steps.repeats[step]) : null],
    ...listBalance(data, step),
    ["IPU", data.memory.length > 1 ? formatWhole(steps.ipu[step]) : null],
    ["Moved", steps.moved_bytes[step] ? formatBytes(steps.moved_bytes[step]) : null],
    ["FLOPs", steps.flops[step] ? formatWhole(steps.flops[step]) : null],
    ["Live bytes", make("a", { href: address.link({ view: "liveness", step }), text: "at this step" })],
  ]), balance ? make("h3", { text: "Cycles of each tile" }) : null, balance?.element);
  if (stepFacts) stepFacts.id = "step-facts";
  if (op < 0) return { element: make("div", {}, stepFacts), balance };
  const cycles = ops.cycles[op];
  const plan = ops.text("plan", op) ? JSON.parse(ops.text("plan", op)) : {};
  const facts = makeFacts("Op", [
    ["Op", ops.text("op", op)],
    ["Node", ops.text("name", op)],
    ["IPU, stage", data.memory.length > 1 ? `${ops.ipu[op]}, ${ops.stage[op]}` : null],
    ["Module", ops.text("module", op) ? makePath(ops.text("module", op)) : null],
    ["Line", ops.text("line", op)],
    ["Family, phase", `${ops.text("family", op)}, ${ops.text("phase", op)}`],
    ["Cycles (modelled)", formatWhole(cycles)],
    ["Time (modelled)", formatTime(data.microseconds(cycles))],
    ["Of a call", formatShare(data.callCycles(op) / data.summary.timing.call_cycles)],
    ["FLOPs", ops.flops[op] ? `${formatWhole(ops.flops[op])} (${formatRate((ops.flops[op] / cycles) * data.clock)})` : null],
    ["Of peak", ops.share_of_peak[op] >= 0 ? formatShare(ops.share_of_peak[op]) : null],
    ["Moved", ops.moved_bytes[op] ? formatBytes(ops.moved_bytes[op]) : null],
    ["Scratch on a tile", ops.scratch_bytes_per_tile[op] ? formatBytes(ops.scratch_bytes_per_tile[op]) : null],
    ["Steps", ops.step_count[op] ? `${formatWhole(ops.first_step[op])} to ${formatWhole(ops.first_step[op] + ops.step_count[op] - 1)}` : "none: free"],
    ...Object.entries(plan).map(([name, value]) => [`Plan: ${name.replaceAll("_", " ")}`, typeof value === "object" ? JSON.stringify(value) : String(value)]),
    ["Figures are", `${ops.text("provenance", op)}${ops.text("basis", op) ? `: ${ops.text("basis", op)}` : ""}`],
  ]);
  facts.id = "op-facts";
  return { element: make("div", { class: "grid" }, stepFacts, makePanel(shortenOp(ops.text("op", op)), facts)), balance };
}
