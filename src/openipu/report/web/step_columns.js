// Several steps side by side: what is live at each of them, and what changed between.

const readSteps = (text, count) => readTiles(text, count, 8);

function makeStepColumns(data, { ipu, tile, one }, chosen, series) {
  const { variables, steps } = data;
  const rows = [];
  for (let variable = 0; variable < variables.length; variable++) {
    if (variables.ipu[variable] !== data.memory[ipu].ipu || variables.always_live[variable]) continue;
    if (!chosen.some((step) => data.isLive(variable, step))) continue;
    const size = one ? data.bytesOnTile(variable, tile) : variables.total_bytes[variable];
    if (size) rows.push({ name: variables.text("name", variable), kind: data.kindOf(variable), bytes: chosen.map((step) => (data.isLive(variable, step) ? size : 0)) });
  }
  const column = (step, place) => ({ label: `Step ${formatWhole(step)}`, help: "Bytes live at this step", key: `step_${step}`, number: true, value: (row) => row.bytes[place], cell: (row) => (row.bytes[place] ? formatBytes(row.bytes[place]) : "–") });
  const change = { label: "Last − first", key: "change", number: true, value: (row) => row.bytes.at(-1) - row.bytes[0], cell: (row) => signBytes(row.bytes.at(-1) - row.bytes[0]) };
  const sums = makeTable({
    caption: "Chosen steps", filter: false,
    rows: [{ name: "not always live", bytes: chosen.map((step) => series.live[step]) }, ...series.kinds.toReversed().map(([name, values]) => ({ name, bytes: chosen.map((step) => values[step]) })).filter((row) => row.name !== "not always live" && row.bytes.some(Boolean)), { name: "always live", bytes: chosen.map(() => series.always) }, { name: "total", bytes: chosen.map((step) => series.always + series.live[step]) }],
    columns: [{ label: "Memory", value: (row) => row.name, cell: (row) => make("span", {}, row.name === "total" || row.name === "not always live" ? null : makeSwatch(row.name), row.name) }, ...chosen.map(column), change],
  });
  sums.element.id = "step-columns";
  const facts = makeFacts("Chosen steps", chosen.map((step) => [`Step ${formatWhole(step)}`, `${steps.text("phase", step)}, ${steps.text("kind", step)}: ${steps.text("name", step)}`]));
  const table = makeTable({
    caption: "Variables live at the chosen steps", rows, sort: 2 + chosen.length,
    columns: [{ label: "Variable", value: (row) => row.name, cell: (row) => makePath(row.name) }, { label: "Kind", value: (row) => row.kind, cell: (row) => row.kind }, ...chosen.map(column), change],
  });
  return make("div", {}, makePanel(`${chosen.length} steps, ${one ? `tile ${tile}` : "all tiles"}`, facts, sums.element), makePanel(`Variables live at these steps, without the always live (${formatWhole(rows.length)})`, table.element));
}

const signBytes = (bytes) => (bytes > 0 ? `+${formatBytes(bytes)}` : bytes < 0 ? `−${formatBytes(-bytes)}` : "0 B");
