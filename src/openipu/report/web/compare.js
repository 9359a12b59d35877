// Two reports side by side: what belongs together, and how much it changed. `data` is what is shown, `data.other` the other.

// How much more the other has: "+12.0 %", "−3.1 %", "same", or in whole where there was nothing.
function formatChange(own, other, format = formatWhole) {
  if (own === other) return "same";
  if (!own) return `+${format(other)}`;
  const change = other / own - 1;
  if (Math.abs(change) < 0.0005) return "same";
  if (change > 9) return `${trimNumber(other / own)}×`;
  return `${change > 0 ? "+" : "−"}${(Math.abs(change) * 100).toFixed(1)} %`;
}

// Less is better, of bytes and of cycles; of rates more is.
function makeChange(own, other, { format = formatWhole, lessIsBetter = true } = {}) {
  const text = formatChange(own, other, format);
  const better = lessIsBetter ? other < own : other > own;
  return make("span", { class: text === "same" ? "muted" : better ? "good" : "bad", text });
}

// "A (before)": the letter, and what tells the two apart. The one shown comes first.
const nameReport = (data) => data.letter.toUpperCase() + (data.label ? ` (${shortenText(data.label, 32)})` : "");
const nameReports = (data) => [nameReport(data), nameReport(data.other)];

// How far apart two figures are, whichever way: the largest differences come first.
const measureChange = ({ own, other }) => (own === other ? 0 : own && other ? Math.abs(Math.log(other / own)) : Infinity);

// rows: {name, own, other, format, lessIsBetter}
function makeComparison(caption, data, rows) {
  const [own, other] = nameReports(data);
  const table = makeTable({
    caption, rows, filter: rows.length > 20,
    columns: [
      { label: "Figure", value: (row) => row.name, cell: (row) => makePath(row.name) },
      { label: own, help: "The report that is shown", number: true, value: (row) => row.own, cell: (row) => (row.format ?? formatWhole)(row.own) },
      { label: other, help: "The report that it is compared with", number: true, value: (row) => row.other, cell: (row) => (row.format ?? formatWhole)(row.other) },
      { label: data.letter === "b" ? "A against B" : "B against A", help: "How much more or less the second has: green is better", number: true, key: "change", value: (row) => (row.own ? row.other / row.own - 1 : row.other ? Infinity : 0), plain: (row) => (row.own ? row.other / row.own - 1 : ""), cell: (row) => makeChange(row.own, row.other, row) },
    ],
  });
  return table.element;
}

// The op of the other report for each op, or -1: the same phase, module and op, in order of appearance.
function matchOps(data) {
  if (data.matches || !data.other) return data.matches;
  const keyOps = ({ ops }) => {
    const seen = new Map();
    return Array.from({ length: ops.length }, (_, op) => {
      const key = ["phase", "module", "op"].map((column) => ops.text(column, op)).join("\n");
      seen.set(key, (seen.get(key) ?? 0) + 1);
      return `${key}\n${seen.get(key)}`;
    });
  };
  const theirs = new Map(keyOps(data.other).map((key, op) => [key, op]));
  data.matches = Int32Array.from(keyOps(data), (key) => theirs.get(key) ?? -1);
  return data.matches;
}

function makeSummaryComparison(data) {
  const [one, two] = [data.summary, data.other.summary];
  const time = (report) => (name) => (report.timing[name] / report.timing.clock_hz) * 1e6;
  const [own, theirs] = [time(one), time(two)];
  const row = (name, a, b, format, lessIsBetter = true) => ({ name, own: a, other: b, format, lessIsBetter });
  const kinds = new Map([...one.shares.step_kinds, ...two.shares.step_kinds].map((entry) => [entry.name, entry.name]));
  const spent = (report, name) => ((report.shares.step_kinds.find((entry) => entry.name === name)?.call_cycles ?? 0) / report.timing.clock_hz) * 1e6;
  const table = makeComparison("Two reports compared", data, [
    row("Fullest tile", one.fit.peak_bytes, two.fit.peak_bytes, formatBytes),
    row("All tiles", one.fit.needed_bytes, two.fit.needed_bytes, formatBytes),
    row("Tiles over the limit", one.fit.tiles_over, two.fit.tiles_over, formatWhole),
    row("Micro-batch", own("micro_cycles"), theirs("micro_cycles"), formatTime),
    row("Weight update", own("update_cycles"), theirs("update_cycles"), formatTime),
    row("Call", own("call_cycles"), theirs("call_cycles"), formatTime),
    row("Samples a second", one.timing.samples_per_second, two.timing.samples_per_second, formatThroughput, false),
    ...[...kinds.keys()].map((name) => row(`Of a call: ${name}`, spent(one, name), spent(two, name), formatTime)),
    row("Ops", one.program.ops, two.program.ops, formatWhole),
    row("Steps", one.program.steps, two.program.steps, formatWhole),
    row("Variables", one.program.variables, two.program.variables, formatWhole),
  ].filter((entry) => entry.own || entry.other).sort((a, b) => measureChange(b) - measureChange(a)));
  table.id = "comparison";
  const changed = Object.keys({ ...one.options, ...two.options }).filter((name) => JSON.stringify(one.options[name]) !== JSON.stringify(two.options[name]));
  const facts = changed.map((name) => [name.replaceAll("_", " "), `${formatOption(one.options[name] ?? null)} → ${formatOption(two.options[name] ?? null)}`]);
  const same = one.system.name === two.system.name ? [] : [["system", `${one.system.name} → ${two.system.name}`]];
  const [first, second] = nameReports(data);
  return makePanel(`${first}: ${shortenText(one.name, 60)}, ${second}: ${shortenText(two.name, 60)}`,
    [...same, ...facts].length ? make("div", {}, make("h3", { text: "Options that differ" }), makeFacts("Options that differ", [...same, ...facts])) : make("p", { class: "hint", text: "Options and system are the same." }),
    make("h3", { text: "Figures, the largest differences first" }), table);
}

function makePipelineComparison(data) {
  const [one, two] = [data.summary.pipeline, data.other.summary.pipeline];
  if (!two) return makePanel("Compared", make("p", { text: "The other report has no pipeline." }));
  const row = (name, read, format, lessIsBetter = true) => ({ name, own: read(one, data), other: read(two, data.other), format, lessIsBetter });
  const table = makeComparison("Pipelines compared", data, [
    row("Bubbles", (pipeline) => pipeline.bubble_share, formatShare),
    row("Steady tick", (pipeline, report) => report.microseconds(pipeline.steady_cycles), formatTime),
    row("Ticks", (pipeline) => pipeline.ticks.all, formatWhole),
    row("Micro-batches", (pipeline) => pipeline.micro_batches, formatWhole, false),
    row("All micro-batches", (pipeline, report) => report.microseconds(pipeline.total_cycles), formatTime),
    row("Slowest IPU to the mean", (pipeline) => pipeline.slowest.ratio_to_mean, (ratio) => `${ratio.toFixed(2)}×`),
  ]);
  table.id = "pipeline-comparison";
  return makePanel("Compared", table);
}
