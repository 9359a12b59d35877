// What the memory views share: sums, limits, markers, and the details of one tile.

function sumParts(parts, count) {
  const totals = new Float64Array(count);
  for (const part of parts) for (let tile = 0; tile < count; tile++) totals[tile] += part.bytes[tile];
  return totals;
}

// One column a tile, or a pixel: where several tiles share one, the fullest of them stands for all.
function drawColumns(view, count, totals, drawColumn) {
  const [from, to] = view.range;
  const perTile = view.plotWidth / (to - from);
  if (perTile >= 1) {
    for (let tile = Math.floor(from); tile < Math.min(count, Math.ceil(to)); tile++) {
      const x = view.snap(Math.max(view.margins.left, view.toPixel(tile)));
      const end = view.snap(Math.min(view.width - view.margins.right, view.toPixel(tile + 1)));
      drawColumn(tile, x, end - x - (perTile > 6 ? 1 : 0));
    }
    return;
  }
  for (let pixel = 0; pixel < view.plotWidth; pixel++) {
    const start = Math.floor(view.toValue(view.margins.left + pixel));
    const stop = Math.min(count, Math.max(start + 1, Math.floor(view.toValue(view.margins.left + pixel + 1))));
    let fullest = start;
    for (let tile = start; tile < stop; tile++) if (totals[tile] > totals[fullest]) fullest = tile;
    const [x, end] = [pixel, pixel + 1].map((place) => view.snap(view.margins.left + place));
    drawColumn(fullest, x, end - x);
  }
}

function indexOfLargest(values) {
  let best = 0;
  for (let place = 1; place < values.length; place++) if (values[place] > values[best]) best = place;
  return best;
}

// The IPU that the address asks for, else the one with the fullest tile.
function readIpu(data, parameters) {
  const ipu = Number(parameters.ipu ?? data.summary.fit.peak_ipu);
  return data.memory[ipu] ? ipu : 0;
}

function makeIpuChoice(data, ipu, change) {
  if (data.memory.length < 2) return null;
  const select = make("select", { onchange: () => change(Number(select.value)) }, ...data.memory.map((entry, place) => make("option", { value: place, text: `IPU ${entry.ipu}`, selected: place === ipu })));
  return make("label", {}, "IPU", select);
}

// Why less is usable than a tile has; the same words stand in docs/report.md.
function explainLimit(data) {
  const { tile_memory_bytes: whole, tile_reserved_bytes: reserved, tile_gap_bytes: gaps } = data.summary.system.figures.target;
  const lost = gaps?.value ? ` and ${formatTileBytes(gaps.value)} are set aside for gaps between variables and code that is not counted` : "";
  return `${formatTileBytes(data.summary.fit.limit_bytes)} of a tile's ${formatTileBytes(whole.value)} are usable: ${formatTileBytes(reserved.value)} are reserved for stacks and the loader${lost}. Gaps are not placed one by one: what is left below the limit is free.`;
}

// A box that draws the limit, and with it an axis that reaches it. Until the reader says, it does where half of it is used.
class LimitBox {
  constructor(parameters, paint) {
    this.chosen = parameters.limit === undefined ? null : parameters.limit === "yes";
    this.box = make("input", { type: "checkbox", class: "with-limit", onchange: () => {
      this.chosen = this.box.checked;
      address.note({ limit: this.chosen ? "yes" : "no" });
      paint();
    } });
    this.element = make("label", {}, this.box, "Limit");
  }
  shows(highest, limit) {
    this.box.checked = this.chosen ?? highest > limit * 0.5;
    return this.box.checked;
  }
}

function drawLimit(context, plot, bytes, top, text) {
  const y = Math.round(plot.toHeight(bytes, top)) + 0.5;
  context.save();
  context.strokeStyle = context.fillStyle = themeColour("limit");
  context.setLineDash([6, 4]);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(plot.margins.left, y);
  context.lineTo(plot.width - plot.margins.right, y);
  context.stroke();
  context.textAlign = "right";
  drawLabel(context, text, plot.width - plot.margins.right - 4, y - 9);
  context.restore();
}

// Text with a halo of the panel's colour, readable on any bar.
function drawLabel(context, text, x, y) {
  context.save();
  context.setLineDash([]);
  context.lineJoin = "round";
  context.strokeStyle = themeColour("panel");
  context.lineWidth = 4;
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
  context.restore();
}

function drawMarker(context, plot, value, y, text) {
  const x = plot.toPixel(value);
  if (x < plot.margins.left || x > plot.width - plot.margins.right) return;
  context.fillStyle = themeColour("ink");
  context.beginPath();
  context.moveTo(x, y - 1);
  context.lineTo(x - 4, y - 7);
  context.lineTo(x + 4, y - 7);
  context.fill();
  const half = context.measureText(text).width / 2;
  context.textAlign = "center";
  drawLabel(context, text, Math.min(Math.max(x, plot.margins.left + half), plot.width - plot.margins.right - half), Math.max(8, y - 15));
}

function drawSelection(context, plot, from, to) {
  const left = Math.max(plot.margins.left, plot.toPixel(from));
  const right = Math.min(plot.width - plot.margins.right, plot.toPixel(to));
  if (right < left) return;
  context.strokeStyle = themeColour("accent");
  context.lineWidth = 1.5;
  context.strokeRect(left - 1, plot.margins.top, Math.max(2, right - left + 2), plot.plotHeight);
  context.lineWidth = 1;
}

function makeTileDetails(data, ipu, tile, parts, total, theirs = null) {
  const step = data.memory[ipu].peakStep[tile];
  const table = data.variables;
  const rows = [];
  for (let variable = 0; variable < table.length; variable++) {
    if (table.ipu[variable] !== data.memory[ipu].ipu || !data.isLive(variable, step)) continue;
    const bytes = data.bytesOnTile(variable, tile);
    if (bytes) rows.push({ variable, bytes });
  }
  const breakdown = makeFacts(`Memory of tile ${tile}`, [
    ["Total", `${formatTileBytes(total)} (${formatWhole(total)} bytes)`],
    ["The same tile in the other report", theirs ? make("span", {}, `${formatTileBytes(theirs[tile])} `, makeChange(total, theirs[tile], { format: formatTileBytes })) : null],
    ["Free below the limit", formatTileBytes(Math.max(0, data.summary.fit.limit_bytes - total))],
    ["Not always live", formatTileBytes(parts.reduce((sum, part) => sum + (part.group === "not always live" ? part.bytes[tile] : 0), 0))],
    ...parts.toReversed().filter((part) => part.bytes[tile]).map((part) => [nameMemory(part.name), formatTileBytes(part.bytes[tile])]),
    ["Worst step", make("a", { href: address.link({ view: "liveness", step, tile, ...(data.memory.length > 1 ? { ipu } : {}) }), text: formatWhole(step) })],
  ]);
  breakdown.id = "tile-breakdown";
  return make("div", {}, makePanel(`Tile ${tile}`, breakdown),
    makePanel(`Variables on tile ${tile} at its worst step (${formatWhole(rows.length)})`, makeVariableTable(data, rows, "On the tile", `Variables on tile ${tile}`, "tile-variables")), makeTileVertices(data, ipu, tile));
}

function makeVariableTable(data, rows, bytesLabel, caption, id) {
  const table = data.variables;
  const origins = new Map();
  const origin = (row) => {
    if (!origins.has(row.variable)) origins.set(row.variable, data.variableOrigin(row.variable));
    return origins.get(row.variable);
  };
  const made = makeTable({
    caption, rows, sort: 1, portion: 25,
    columns: [
      { label: "Variable", value: (row) => table.text("name", row.variable), cell: (row) => makePath(table.text("name", row.variable)) },
      { label: bytesLabel, number: true, value: (row) => row.bytes, cell: (row) => formatBytes(row.bytes), title: (row) => `${formatWhole(row.bytes)} bytes` },
      { label: "In all", number: true, value: (row) => table.total_bytes[row.variable], cell: (row) => formatBytes(table.total_bytes[row.variable]) },
      { label: "Kind", value: (row) => data.kindOf(row.variable), cell: (row) => data.kindOf(row.variable) },
      { label: "Shape", cell: (row) => `${table.text("shape", row.variable)} ${table.text("dtype", row.variable)}` },
      { label: "Live", value: (row) => (table.always_live[row.variable] ? -1 : table.first_step[row.variable]), cell: (row) => (table.always_live[row.variable] ? "always" : `steps ${formatWhole(table.first_step[row.variable])} to ${formatWhole(table.last_step[row.variable])}`) },
      { label: "Module", value: (row) => origin(row).module, cell: (row) => makePath(origin(row).module || "–") },
      { label: "Line", value: (row) => origin(row).line, cell: (row) => makeSource(origin(row).line) },
    ],
  });
  made.element.id = id;
  return made.element;
}
