// View 1: does it fit, how long does it take, and what does that rest on?

function showSummary(data, root) {
  const { fit, timing, program, system, guesses, shares, memory, options, planning, warnings } = data.summary;
  const time = (cycles) => data.microseconds(cycles);
  const several = data.memory.length > 1;
  root.append(
    make("h1", { title: shortenText(data.summary.name, 2000), text: shortenText(data.summary.name, 200) }),
    make("p", { class: "lead" }, `Modelled ${program.training ? "training" : "inference"} on ${system.name} (${system.target_name}): ` +
      `${formatWhole(program.ops)} ops in ${formatWhole(program.steps)} steps, ${formatWhole(program.variables)} variables.`),
    makeVerdict(fit),
    makeInsightLine(data),
    data.other ? makeSummaryComparison(data) : "",
  );

  const cyclesFigure = (name, cycles, note) => makeFigure(name, [formatTime(time(cycles))], `${formatWhole(cycles)} cycles`, note ? make("div", { class: "note", text: note }) : null);
  const used = fit.peak_bytes / fit.limit_bytes;
  const meter = make("div", { class: fit.fits ? "meter" : "meter over" }, make("i", { style: `width: ${Math.min(100, used * 100)}%` }));
  root.append(
    make(
      "dl",
      { class: "figures", "aria-label": "Key figures, all modelled" },
      makeFigure("Fullest tile", [formatTileBytes(fit.peak_bytes)], `of ${formatTileBytes(fit.limit_bytes)}, ${formatShare(used)}`, meter),
      cyclesFigure(data.summary.pipeline ? "Steady tick" : "Micro-batch", timing.micro_cycles, countOf(program.micro_batch_samples, "sample")),
      program.training ? cyclesFigure("Weight update", timing.update_cycles) : null,
      cyclesFigure("Call", timing.call_cycles, countOf(timing.samples_per_call, "sample")),
      makeFigure("Throughput", [formatThroughput(timing.samples_per_second), " samples/s"], program.replicas > 1 ? `${program.replicas} replicas` : "one replica"),
      makeFigure("Rests on guesses", [formatShare(guesses.share_of_call_cycles)], several ? "of the IPUs' busy cycles" : "of the cycles of a call"),
    ),
    several ? makePanel("IPUs", makePipelineLine(data), makeIpuVerdicts(data)) : "",
    makePanel(
      several ? "Where the IPUs' busy time goes, all added up" : "Where a call goes",
      makeShareBar("By kind of step", shares.step_kinds, time),
      shares.phases.length > 1 ? makeShareBar("By phase", shares.phases, time) : null,
      makeFamilies(shares.families, time),
    ),
  );
  const culprits = makeCulprits(data, fit);
  if (culprits && !fit.fits) root.append(culprits);
  root.append(makePanel("Slowest ops", makeSlowest(data)));
  if (culprits && fit.fits) root.append(culprits);
  root.append(
    make(
      "div",
      { class: "grid" },
      makePanel("Memory", makeMemoryTable(memory.categories, fit)),
      makePanel("What the figures rest on", makeBasis(guesses, warnings, planning, several)),
      makePanel("Target and system", makeSystem(system)),
      makePanel("Options", makeFacts("Options", Object.entries(options).map(([name, value]) => [name.replaceAll("_", " "), formatOption(value)]))),
    ),
  );
  return {};
}

function formatOption(value) {
  if (value === null || (Array.isArray(value) && !value.length)) return "not set";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const countOf = (number, noun) => `${formatWhole(number)} ${noun}${number === 1 ? "" : "s"}`;
const formatThroughput = (rate) => (rate >= 100 ? formatWhole(rate) : trimNumber(rate));

// Nothing modelled is certain, so never 0 or 100.
function formatProbability(probability) {
  if (probability < 0.01) return "below 1 %";
  return probability > 0.99 ? "above 99 %" : `${Math.round(probability * 100)} %`;
}

function makeVerdict(fit) {
  const where = `tile ${fit.peak_tile} of IPU ${fit.peak_ipu} at step ${formatWhole(fit.peak_step)}`;
  const title = fit.fits ? "Fits" : `Does not fit: ${formatBytes(fit.bytes_over)} too much on ${countOf(fit.tiles_over, "tile")}`;
  const text = fit.fits
    ? `The fullest tile needs ${formatTileBytes(fit.peak_bytes)} of ${formatTileBytes(fit.limit_bytes)} (modelled): ${where}.`
    : `The fullest tile needs ${formatTileBytes(fit.peak_bytes)}, ${formatTileBytes(fit.bytes_over_worst_tile)} more than the ${formatTileBytes(fit.limit_bytes)} it has (modelled): ${where}.`;
  const chance = `Probability that it fits a real IPU: ${formatProbability(fit.probability)}.`;
  return make(
    "div",
    { class: fit.fits ? "verdict" : "verdict over", role: "status", id: "verdict" },
    make("span", { class: "mark", "aria-hidden": "true", text: fit.fits ? "✓" : "!" }),
    make("div", {}, make("strong", { text: title }), text, " ", make("span", { id: "probability", text: chance }), " ", make("a", { href: address.link({ view: "memory", tile: fit.peak_tile }), text: "See the tile" }), ", ",
      make("a", { href: address.link({ view: "liveness", step: fit.peak_step }), text: "see the step" }),
      ...(fit.fits ? [] : [", ", make("a", { href: address.link({ view: "insights" }), text: "see what helps" })])),
  );
}

// The weightiest insights, as links.
function makeInsightLine(data) {
  const shown = data.summary.insights.filter((finding) => finding.level !== "note" && finding.rule !== "fullest-tile").slice(0, 3);
  if (!shown.length) return "";
  const item = (finding) => make("li", {}, make("a", { href: address.link({ view: "insights", filter: finding.title }), text: finding.title }));
  return make("ul", { class: "notes insight-line", "aria-label": "Insights" }, ...shown.map(item), make("li", {}, make("a", { href: address.link({ view: "insights" }), text: `All ${formatWhole(data.summary.insights.length)} insights` })));
}

function makeFigure(name, [value, unit], note, extra) {
  return make("div", { class: "figure" }, make("dt", { text: name }),
    make("dd", {}, make("div", { class: "value" }, value, unit ? make("small", { text: unit }) : null), make("div", { class: "note" }, note), extra));
}

function makeShareBar(title, shares, time) {
  const bar = make("div", { class: "bar", "aria-hidden": "true" });
  const legend = make("ul", { class: "legend", "aria-label": title });
  for (const { name, share, call_cycles: cycles } of shares) {
    const part = make("span", { style: `flex: ${share} 0 0; background: ${colourOf(name)}`, "data-colour": name, title: `${name} ${formatShare(share)}` });
    bar.append(part);
    legend.append(make("li", {}, makeSwatch(name), make("span", { class: "name", text: `${name} ` }), make("b", { text: formatShare(share) }), ` ${formatTime(time(cycles))}`));
  }
  return make("div", {}, bar, legend);
}

function makeFamilies(families, time) {
  const text = families.map(({ name, share, call_cycles: cycles }) =>
    make("li", {}, make("span", { class: "name", text: `${name} ` }), make("b", { text: formatShare(share) }), ` ${formatTime(time(cycles))}`));
  return make("ul", { class: "legend", "aria-label": "By family of op", style: "margin: 0" }, ...text);
}

function makeCulprits(data, fit) {
  if (!fit.culprits.length) return null;
  const table = makeTable({
    caption: `What fills tile ${fit.peak_tile} at step ${fit.peak_step}`,
    rows: fit.culprits,
    columns: [
      { label: "Tensor", cell: (row) => makePath(row.name) },
      { label: "On the tile", number: true, value: (row) => row.bytes_on_tile, cell: (row) => formatTileBytes(row.bytes_on_tile) },
      { label: "In all", number: true, value: (row) => row.bytes_total, cell: (row) => formatBytes(row.bytes_total) },
      { label: "Kind", value: (row) => row.kind, cell: (row) => row.kind },
      { label: "Module", value: (row) => row.module, cell: (row) => makePath(row.module || "–") },
      { label: "Line", cell: (row) => makeSource(row.line ? `${row.line.file}:${row.line.line} in ${row.line.function}` : "") },
    ],
  });
  table.element.id = "culprits";
  return makePanel(`What fills the fullest tile (tile ${fit.peak_tile}, step ${formatWhole(fit.peak_step)})`, table.element);
}

function makeSource(line) {
  return make("span", { class: "source", title: shortenText(line, 2000), text: line ? shortenText(shortenLine(line), 60) : "–" });
}

function makeSlowest(data) {
  const { ops } = data;
  const whole = data.summary.timing.call_cycles;
  const table = makeTable({
    caption: "Slowest ops",
    rows: data.summary.slowest_ops,
    onPick: (op) => (location.hash = address.link({ view: "trace", op })),
    columns: [
      { label: "Op", cell: (op) => makePath(shortenOp(ops.text("op", op))) },
      { label: "Of a call", number: true, cell: (op) => formatShare(data.callCycles(op) / whole) },
      { label: "Once", number: true, cell: (op) => formatTime(data.microseconds(ops.cycles[op])) },
      { label: "Cycles once", number: true, cell: (op) => formatWhole(ops.cycles[op]) },
      { label: "Of peak", number: true, cell: (op) => (ops.share_of_peak[op] < 0 ? "–" : formatShare(ops.share_of_peak[op])) },
      { label: "Phase", cell: (op) => ops.text("phase", op) },
      { label: "Module", cell: (op) => makePath(ops.text("module", op) || "–") },
      { label: "Line", cell: (op) => makeSource(ops.text("line", op)) },
    ],
  });
  table.element.id = "slowest";
  return table.element;
}

function makeMemoryTable(categories, fit) {
  const rows = categories.filter((part) => part.all_tiles_bytes);
  const table = makeTable({
    caption: "Memory by category",
    rows,
    columns: [
      { label: "Category", cell: (row) => make("span", {}, makeSwatch(row.name), nameMemory(row.name)) },
      { label: `Tile ${fit.peak_tile}`, help: "On the fullest tile at its worst step", number: true, value: (row) => row.fullest_tile_bytes, cell: (row) => formatTileBytes(row.fullest_tile_bytes) },
      { label: "All tiles", number: true, value: (row) => row.all_tiles_bytes, cell: (row) => formatBytes(row.all_tiles_bytes) },
    ],
  });
  return table.element;
}

function makeBasis(guesses, warnings, planning, several) {
  const item = (text) => make("li", { text });
  const unknown = Object.entries(guesses.ops).map(([op, count]) => `${op} (×${count})`);
  return make(
    "ul",
    { class: "notes" },
    item("Cycles, bytes and rates are modelled: computed from shapes, the op table and the machine's figures. None is a measurement."),
    item(`${formatShare(guesses.share_of_call_cycles)} of the ${several ? "IPUs' busy cycles" : "cycles of a call"} rest on guesses.`),
    unknown.length ? item(`Ops whose cost is a guess: ${unknown.join(", ")}.`) : item("No op's cost is a guess."),
    guesses.machine_figures.length ? item(`Guessed figures of the machine: ${guesses.machine_figures.join(", ")}.`) : null,
    ...warnings.map((warning) => item(warning)),
    planning.seconds ? item(`Planned in ${formatTime(planning.seconds * 1e6)}: ${Object.entries(planning.passes_seconds).map(([name, seconds]) => `${name} ${formatTime(seconds * 1e6)}`).join(", ")}.`) : null,
  );
}

function makeSystem(system) {
  const known = system.figures;
  const source = (scope, name) => {
    const figure = known[scope][name];
    return figure?.provenance ? `${figure.provenance}: ${figure.source}` : undefined;
  };
  const rate = (name) => `${trimNumber(known.system[name].value / 1e9)} GB/s`;
  return makeFacts("Target and system", [
    ["System", `${system.name}, ${countOf(system.ipus, "IPU")}`, known.system.description?.value],
    ["Chip", `${system.target_name} (${known.target.architecture.value})`],
    ["Tiles per IPU", formatWhole(system.tiles_per_ipu), source("target", "tiles")],
    ["Clock", `${trimNumber(system.clock_hz / 1e9)} GHz`, source("target", "clock_hz")],
    ["Memory of a tile", `${formatBytes(known.target.tile_memory_bytes.value)}, ${formatBytes(system.usable_tile_bytes)} usable`, source("target", "tile_memory_bytes")],
    ["Peak, half", formatRate(system.peak_flops_half)],
    ["Peak, float", formatRate(system.peak_flops_float)],
    ["Host link of an IPU", rate("host_bytes_per_second"), source("system", "host_bytes_per_second")],
    ["IPU link, one way", known.system.ipu_link_bytes_per_second.value ? rate("ipu_link_bytes_per_second") : "none", source("system", "ipu_link_bytes_per_second")],
  ]);
}
