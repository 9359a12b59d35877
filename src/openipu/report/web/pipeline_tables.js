// What stands around the chart of a pipeline: key figures, the chosen micro-batch, and tables of stages and IPUs.

function makePipelineFigures(data) {
  const { pipeline } = data.summary;
  const { slowest, ticks } = pipeline;
  const time = (cycles) => formatTime(data.microseconds(cycles));
  const figures = make("dl", { class: "figures", "aria-label": "Key figures of the pipeline, all modelled" },
    makeFigure("Bubbles", [formatShare(pipeline.bubble_share)], "of the IPUs' time is idle"),
    makeFigure(pipeline.micro_batches < pipeline.stages.length ? "Tick, in the middle" : "Steady tick", [time(pipeline.steady_cycles)], `${formatWhole(pipeline.steady_cycles)} cycles`),
    makeFigure("Ticks", [formatWhole(ticks.all)], `${formatWhole(ticks.fill)} fill, ${formatWhole(ticks.steady)} ${pipeline.micro_batches < pipeline.stages.length ? "between" : "steady"}, ${formatWhole(ticks.drain)} drain`),
    makeFigure("All micro-batches", [time(pipeline.total_cycles)], `${formatWhole(pipeline.total_cycles)} cycles`),
    makeFigure("Slowest", [`IPU ${slowest.ipu}`], `${slowest.ratio_to_mean.toFixed(2)}× the mean`));
  return make("div", {}, figures, make("p", { class: "lead", id: "finding", text: slowest.finding }));
}

function makeBatchDetails(data, ticks, batch, stage) {
  const { pipeline } = data.summary;
  const both = (cycles) => `${formatWhole(cycles)} (${formatTime(data.microseconds(cycles))})`;
  const first = ticks.blockOf(pipeline.stages[0], batch);
  const last = ticks.blockOf(pipeline.stages.at(-1), batch);
  const work = pipeline.stages.reduce((sum, each) => sum + each.cycles, 0);
  const here = ticks.blockOf(stage, batch);
  const way = makeFacts(`Micro-batch ${batch}`, [
    ["Enters at cycle", both(first.from)],
    ["Leaves at cycle", both(last.to)],
    ["On its way for", both(last.to - first.from)],
    ["Of that, worked on", `${formatWhole(work)} (${formatShare(work / (last.to - first.from))})`],
  ]);
  way.id = "batch-facts";
  const memory = data.memory.findIndex((entry) => entry.ipu === stage.ipu);
  const facts = makeFacts("Stage", [
    ["Stage, pass", `${stage.stage}, ${passOf(stage)}`],
    ["IPU", make("a", { href: address.link({ view: "memory", ipu: memory }), text: `${stage.ipu}, its memory` })],
    ["Tick", formatWhole(here.tick)],
    ["Begins at cycle", both(here.from)],
    ["Takes", both(stage.cycles)],
    ["Steps", make("a", { href: linkStage(data, stage), text: "in the trace" })],
  ]);
  return make("div", { class: "grid" }, makePanel(`Micro-batch ${batch}`, way), makePanel(`Stage ${stage.stage}, ${passOf(stage)}`, facts));
}

function linkStage(data, stage) {
  return address.link({ view: "trace", ipu: data.memory.findIndex((entry) => entry.ipu === stage.ipu), stage: stage.stage, phase: passOf(stage).replace(" and ", " ") });
}

function makeStageTable(data) {
  const { pipeline, fit } = data.summary;
  const peaks = new Map(fit.ipus.map((entry) => [entry.ipu, entry]));
  const most = Math.max(...pipeline.stages.map((stage) => stage.cycles));
  const table = makeTable({
    caption: "Stages of the pipeline",
    rows: pipeline.stages,
    sort: null,
    onPick: (stage) => (location.hash = linkStage(data, stage)),
    columns: [
      { label: "Stage", value: (row) => row.index, cell: (row) => make("span", {}, makeSwatch(passOf(row)), `${row.stage} ${passOf(row)}`) },
      { label: "IPU", number: true, value: (row) => row.ipu, cell: (row) => String(row.ipu) },
      { label: "Cycles", number: true, value: (row) => row.cycles, cell: (row) => formatWhole(row.cycles) },
      { label: "Time", key: "microseconds", number: true, value: (row) => row.cycles, plain: (row) => data.microseconds(row.cycles), cell: (row) => formatTime(data.microseconds(row.cycles)) },
      { label: "Share", number: true, value: (row) => row.share, cell: (row) => make("span", {}, formatShare(row.share), makeMeter(row.cycles / most)) },
      { label: "Fullest tile", key: "peak_tile_bytes", number: true, value: (row) => peaks.get(row.ipu)?.peak_bytes ?? 0, cell: (row) => (peaks.has(row.ipu) ? formatTileBytes(peaks.get(row.ipu).peak_bytes) : "–") },
    ],
  });
  table.element.id = "stages";
  return table.element;
}

function makeLoadTable(data) {
  const { pipeline } = data.summary;
  const whole = pipeline.total_cycles || 1;
  const share = (name) => ({ value: (row) => row[name], cell: (row) => formatShare(row[name] / whole), number: true });
  const table = makeTable({
    caption: "How busy each IPU is",
    rows: pipeline.ipus,
    columns: [
      { label: "IPU", value: (row) => row.ipu, cell: (row) => `IPU ${row.ipu}` },
      { label: "Stages", cell: (row) => row.stages.join(", ") },
      { label: "Cycles a tick", number: true, value: (row) => row.tick_cycles, cell: (row) => formatWhole(row.tick_cycles) },
      { label: "Busy", ...share("busy_cycles") },
      { label: "Fill and drain", ...share("empty_cycles") },
      { label: "Waits for others", ...share("waiting_cycles") },
      { label: "Bubbles", number: true, value: (row) => row.bubble_share, cell: (row) => formatShare(row.bubble_share) },
    ],
  });
  table.element.id = "loads";
  return table.element;
}
