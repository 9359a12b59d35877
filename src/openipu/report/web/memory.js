// View 2: bytes on every tile, stacked by category, against what a tile has.

function showMemory(data, root, parameters) {
  const { fit } = data.summary;
  const state = { ipu: readIpu(data, parameters), tile: null };
  let parts = data.tileParts(state.ipu);
  let totals = sumParts(parts, data.tiles);
  root.append(make("h1", { text: "Memory" }),
    make("p", { class: "lead", text: "Modelled bytes on every tile: code and always-live variables, and on top the most that was live besides, each tile at its own worst step." }));

  const plot = new Plot({
    label: `Bytes on each of ${data.tiles} tiles of an IPU; the fullest is tile ${fit.peak_tile}${data.memory.length > 1 ? ` of IPU ${fit.peak_ipu}` : ""} with ${formatBytes(fit.peak_bytes)} of ${formatBytes(fit.limit_bytes)}. Arrow keys choose a tile.`,
    role: "slider",
    height: (width) => (width < 600 ? 280 : 380),
    from: 0, to: data.tiles, minimumSpan: Math.min(8, data.tiles), tickStep: 1,
    draw: drawTiles,
    hover: (x) => {
      const tile = tileAt(x);
      return tile === null ? null : describeTile(tile);
    },
    pick: (x) => {
      const tile = tileAt(x);
      if (tile !== null) choose(tile);
    },
    move: (steps) => choose(Math.min(data.tiles - 1, Math.max(0, (state.tile ?? 0) + steps))),
  });
  const number = make("input", { type: "number", min: 0, max: data.tiles - 1, id: "tile", onchange: () => choose(Number(number.value)) });
  const legend = make("ul", { class: "legend", "aria-label": "Categories: bytes on all tiles" });
  const details = make("div", { id: "tile-details" });
  const charts = data.memory.length > 1 ? makeIpuCharts(data, state.ipu, changeIpu) : null;
  if (charts) root.append(make("section", { class: "panel", "aria-label": "All IPUs" }, charts.element));
  const choice = makeIpuChoice(data, state.ipu, changeIpu);
  root.append(
    make("section", { class: "panel", "aria-label": "Bytes per tile" },
      make("div", { class: "controls" }, choice, make("label", {}, "Tile", number),
        make("button", { type: "button", text: "Fullest tile", onclick: () => choose(indexOfLargest(totals)) }), make("span", { class: "push" }), plot.tools),
      legend, plot.element,
      make("p", { class: "hint", text: "Click a tile for its variables. Arrow keys move by one tile, with Shift by ten; drag to pan, Ctrl with the wheel, pinch, + and − to zoom." })),
    details,
  );

  function fillLegend() {
    legend.replaceChildren(...parts.toReversed().map((part) =>
      make("li", {}, makeSwatch(part.name), make("span", { class: "name", text: `${part.name} ` }), make("b", { text: formatBytes(part.bytes.reduce((sum, bytes) => sum + bytes, 0)) }))));
  }
  function changeIpu(ipu, tile) {
    state.ipu = ipu;
    parts = data.tileParts(ipu);
    totals = sumParts(parts, data.tiles);
    fillLegend();
    address.note({ ipu });
    charts?.mark(ipu);
    if (choice) choice.querySelector("select").value = ipu;
    choose(tile ?? indexOfLargest(totals));
  }
  function tileAt(x) {
    const tile = Math.floor(plot.toValue(x));
    return x < plot.margins.left || tile < 0 || tile >= data.tiles ? null : tile;
  }
  function describeTile(tile) {
    const rows = parts.toReversed().filter((part) => part.bytes[tile]).map((part) => [part.name, formatBytes(part.bytes[tile]), part.name]);
    return [`Tile ${tile}: ${formatBytes(totals[tile])}`, [`of ${formatBytes(fit.limit_bytes)}`, formatShare(totals[tile] / fit.limit_bytes)], ...rows];
  }

  // One column a pixel: where several tiles share it, the fullest of them stands for all.
  function drawTiles(context, view) {
    const top = Math.max(fit.limit_bytes, totals.reduce((most, bytes) => Math.max(most, bytes), 0)) * 1.1;
    view.drawByteAxis(context, top);
    const colours = parts.map((part) => colourOf(part.name));
    const [from, to] = view.range;
    const perTile = view.plotWidth / (to - from);
    const drawColumn = (tile, x, width) => {
      let below = 0;
      parts.forEach((part, place) => {
        const bytes = part.bytes[tile];
        if (!bytes) return;
        const y = view.toHeight(below + bytes, top);
        context.fillStyle = colours[place];
        context.fillRect(x, y, width, view.toHeight(below, top) - y + 0.3);
        below += bytes;
      });
    };
    if (perTile >= 1) {
      for (let tile = Math.floor(from); tile < Math.min(data.tiles, Math.ceil(to)); tile++) {
        const x = Math.max(view.margins.left, view.toPixel(tile));
        const end = Math.min(view.width - view.margins.right, view.toPixel(tile + 1));
        drawColumn(tile, x, end - x - (perTile > 6 ? 1 : -0.3));
      }
    } else {
      for (let pixel = 0; pixel < view.plotWidth; pixel++) {
        const start = Math.floor(view.toValue(view.margins.left + pixel));
        const stop = Math.min(data.tiles, Math.max(start + 1, Math.floor(view.toValue(view.margins.left + pixel + 1))));
        let fullest = start;
        for (let tile = start; tile < stop; tile++) if (totals[tile] > totals[fullest]) fullest = tile;
        drawColumn(fullest, view.margins.left + pixel, 1.3);
      }
    }
    if (state.tile !== null) drawSelection(context, view, state.tile, state.tile + 1);
    drawLimit(context, view, fit.limit_bytes, top, `${formatBytes(fit.limit_bytes)} usable`);
    const fullest = indexOfLargest(totals);
    drawMarker(context, view, fullest + 0.5, view.toHeight(totals[fullest], top), `max ${formatBytes(totals[fullest])}, tile ${fullest}`);
    view.drawBottomAxis(context, formatWhole, "tile");
  }

  function choose(tile) {
    if (!(tile >= 0 && tile < data.tiles)) return;
    state.tile = tile;
    number.value = tile;
    address.note({ tile });
    const { canvas } = plot;
    for (const [name, value] of [["valuemin", 0], ["valuemax", data.tiles - 1], ["valuenow", tile], ["valuetext", `tile ${tile}, ${formatBytes(totals[tile])}`]]) canvas.setAttribute(`aria-${name}`, value);
    details.replaceChildren(makeTileDetails(data, state.ipu, tile, parts, totals[tile]));
    plot.paint();
  }

  fillLegend();
  choose(parameters.tile !== undefined ? Number(parameters.tile) : indexOfLargest(totals));
  if (state.tile === null) choose(0);
  function update(next) {
    const tile = next.tile === undefined ? undefined : Number(next.tile);
    if (data.memory[Number(next.ipu)] && Number(next.ipu) !== state.ipu) changeIpu(Number(next.ipu), tile);
    else if (tile !== undefined) choose(tile);
  }
  const paint = () => {
    plot.paint();
    charts?.paint();
  };
  return { paint, update, close: () => { plot.close(); charts?.close(); } };
}

function sumParts(parts, count) {
  const totals = new Float64Array(count);
  for (const part of parts) for (let tile = 0; tile < count; tile++) totals[tile] += part.bytes[tile];
  return totals;
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

function makeTileDetails(data, ipu, tile, parts, total) {
  const step = data.memory[ipu].peakStep[tile];
  const table = data.variables;
  const rows = [];
  for (let variable = 0; variable < table.length; variable++) {
    if (table.ipu[variable] !== data.memory[ipu].ipu || !data.isLive(variable, step)) continue;
    const bytes = data.bytesOnTile(variable, tile);
    if (bytes) rows.push({ variable, bytes });
  }
  const breakdown = makeFacts(`Memory of tile ${tile}`, [
    ["Total", `${formatBytes(total)} (${formatWhole(total)} bytes)`],
    ...parts.toReversed().filter((part) => part.bytes[tile]).map((part) => [part.name, formatBytes(part.bytes[tile])]),
    ["Worst step", make("a", { href: address.link({ view: "liveness", step, tile, ...(data.memory.length > 1 ? { ipu } : {}) }), text: formatWhole(step) })],
  ]);
  breakdown.id = "tile-breakdown";
  return make("div", {}, makePanel(`Tile ${tile}`, breakdown),
    makePanel(`Variables on tile ${tile} at its worst step (${formatWhole(rows.length)})`, makeVariableTable(data, rows, "On the tile", `Variables on tile ${tile}`)));
}

function makeVariableTable(data, rows, bytesLabel, caption) {
  const table = data.variables;
  const origins = new Map();
  const origin = (row) => {
    if (!origins.has(row.variable)) origins.set(row.variable, data.variableOrigin(row.variable));
    return origins.get(row.variable);
  };
  const made = makeTable({
    caption, rows, sort: 1,
    columns: [
      { label: "Variable", value: (row) => table.text("name", row.variable), cell: (row) => makePath(table.text("name", row.variable)) },
      { label: bytesLabel, number: true, value: (row) => row.bytes, cell: (row) => formatBytes(row.bytes), title: (row) => `${formatWhole(row.bytes)} bytes` },
      { label: "In all", number: true, value: (row) => table.total_bytes[row.variable], cell: (row) => formatBytes(table.total_bytes[row.variable]) },
      { label: "Kind", value: (row) => table.text("kind", row.variable), cell: (row) => table.text("kind", row.variable) },
      { label: "Shape", cell: (row) => `${table.text("shape", row.variable)} ${table.text("dtype", row.variable)}` },
      { label: "Live", value: (row) => (table.always_live[row.variable] ? -1 : table.first_step[row.variable]), cell: (row) => (table.always_live[row.variable] ? "always" : `steps ${formatWhole(table.first_step[row.variable])} to ${formatWhole(table.last_step[row.variable])}`) },
      { label: "Module", value: (row) => origin(row).module, cell: (row) => makePath(origin(row).module || "–") },
      { label: "Line", value: (row) => origin(row).line, cell: (row) => makeSource(origin(row).line) },
    ],
  });
  return made.element;
}
