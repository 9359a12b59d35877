// View: bytes on every tile, as stacked columns or as a map of tiles, against what a tile has.

function showMemory(data, root, parameters) {
  const { fit } = data.summary;
  const state = { ipu: readIpu(data, parameters), tile: null, tiles: [], shown: parameters.shown === "plan" ? "plan" : "chart", part: parameters.part ?? "", variable: readVariable(parameters.variable) };
  let parts = data.tileParts(state.ipu);
  let totals = sumParts(parts, data.tiles);
  let theirs = sumTheirs();
  root.append(make("h1", { text: "Memory" }),
    make("p", { class: "lead", text: "Modelled bytes on every tile: code and always-live variables, and on top, by kind, the most that was live besides, each tile at its own worst step. " }, explainLimit(data)));

  const plot = new Plot({
    label: `Bytes on each of ${data.tiles} tiles of an IPU; the fullest is tile ${fit.peak_tile}${data.memory.length > 1 ? ` of IPU ${fit.peak_ipu}` : ""} with ${formatTileBytes(fit.peak_bytes)} of ${formatTileBytes(fit.limit_bytes)}. Arrow keys choose a tile.`,
    name: "memory",
    role: "slider",
    height: (width) => (width < 600 ? 280 : 380),
    from: 0, to: data.tiles, minimumSpan: Math.min(8, data.tiles), tickStep: 1,
    draw: drawTiles,
    hover: (x) => {
      const tile = tileAt(x);
      return tile === null ? null : describeTile(tile);
    },
    pick: (x, y, event) => {
      const tile = tileAt(x);
      if (tile !== null) choose(tile, event?.shiftKey);
    },
    move: (steps) => choose(Math.min(data.tiles - 1, Math.max(0, (state.tile ?? 0) + steps))),
  });
  const plan = new FloorPlan({
    label: `Map of ${data.tiles} tiles. Arrow keys move, with Shift they add a tile.`,
    count: data.tiles, value: planValue, full: planFull, chosen: () => state.tiles, pick: choose,
    hover: (tile) => (state.variable >= 0 ? [`Tile ${tile}`, [data.variables.text("name", state.variable).slice(0, 60), formatBytes(data.bytesOnTile(state.variable, tile))]] : describeTile(tile)),
  });
  const limit = new LimitBox(parameters, () => plot.paint());
  const number = make("input", { type: "number", min: 0, max: data.tiles - 1, id: "tile", onchange: () => choose(Number(number.value)) });
  const several = make("input", { type: "text", id: "tiles", size: 14, placeholder: "0, 3, 10-12", "aria-label": "Several tiles", onchange: () => chooseAll(readTiles(several.value, data.tiles)) });
  const choices = ["chart", "plan"].map((name) => make("button", { type: "button", "data-shown": name, text: name === "chart" ? "Chart" : "Floor plan", onclick: () => show(name) }));
  const colour = make("select", { id: "plan-colour", "aria-label": "Colour by", onchange: () => paintPart(colour.value) });
  const planTools = make("label", {}, "Colour by", colour);
  const legend = make("ul", { class: "legend", "aria-label": "Categories: bytes on all tiles" });
  const details = make("div", { id: "tile-details" });
  const charts = data.memory.length > 1 ? makeIpuCharts(data, state.ipu, changeIpu) : null;
  if (charts) root.append(make("section", { class: "panel", "aria-label": "All IPUs" }, charts.element));
  const choice = makeIpuChoice(data, state.ipu, changeIpu);
  root.append(
    make("section", { class: "panel", "aria-label": "Bytes per tile" },
      make("div", { class: "controls" }, make("div", { class: "choice", role: "group", "aria-label": "Shown as" }, ...choices), choice, make("label", {}, "Tile", number), make("label", {}, "Tiles", several),
        make("button", { type: "button", text: "Fullest tile", onclick: () => choose(indexOfLargest(totals)) }), planTools, limit.element, make("span", { class: "push" }), plot.saves, plan.saves, plot.tools),
      legend, plot.element, plan.element,
      make("p", { class: "hint", text: `Click a tile for its vertices and variables, with Shift to put several side by side. Arrow keys move by one tile, with Shift by ten. ${WHEEL_HINT} Drag pans.` })),
    details,
  );

  function readVariable(text) {
    const variable = Number(text ?? -1);
    return variable >= 0 && variable < data.variables.length ? variable : -1;
  }
  function sumTheirs() {
    const place = data.other?.memory[state.ipu] && data.other.tiles === data.tiles ? state.ipu : -1;
    return place < 0 ? null : sumParts(data.other.tileParts(place), data.tiles);
  }
  function planValue(tile) {
    if (state.variable >= 0) return data.bytesOnTile(state.variable, tile);
    const part = parts.find((entry) => entry.name === state.part);
    return part ? part.bytes[tile] : totals[tile];
  }
  // A total is held against the limit; a part or a variable against its own fullest tile.
  function planFull() {
    if (state.variable < 0 && !parts.some((entry) => entry.name === state.part)) return fit.limit_bytes;
    let most = 1;
    for (let tile = 0; tile < data.tiles; tile++) most = Math.max(most, planValue(tile));
    return most;
  }
  function show(name) {
    state.shown = name;
    address.note({ shown: name === "plan" ? "plan" : null });
    for (const button of choices) button.setAttribute("aria-pressed", button.dataset.shown === name);
    for (const element of [plot.element, plot.tools, plot.saves, limit.element]) element.hidden = name === "plan";
    for (const element of [plan.element, planTools, plan.saves]) element.hidden = name !== "plan";
    paintAll();
  }
  function paintPart(name) {
    Object.assign(state, { part: name, variable: name.startsWith("variable ") ? Number(name.slice(9)) : -1 });
    address.note({ part: state.variable >= 0 ? null : name, variable: state.variable >= 0 ? state.variable : null });
    plan.paint();
  }
  function fillLegend() {
    legend.replaceChildren(...parts.toReversed().map((part) =>
      make("li", {}, makeSwatch(part.name), make("span", { class: "name", text: `${nameMemory(part.name)} ` }), make("b", { text: formatBytes(part.bytes.reduce((sum, bytes) => sum + bytes, 0)) }))),
    ...(theirs ? [make("li", {}, make("span", { class: "line-key" }), make("span", { class: "name", text: `${nameReports(data)[1]}, total ` }), make("b", { text: formatBytes(theirs.reduce((sum, bytes) => sum + bytes, 0)) }))] : []));
    const own = state.variable >= 0 ? [make("option", { value: `variable ${state.variable}`, text: `variable ${shortenText(data.variables.text("name", state.variable), 50)}` })] : [];
    colour.replaceChildren(make("option", { value: "", text: "total of the limit" }), ...parts.map((part) => make("option", { value: part.name, text: nameMemory(part.name) })), ...own);
    colour.value = own.length ? `variable ${state.variable}` : state.part;
  }
  function changeIpu(ipu, tile) {
    state.ipu = ipu;
    parts = data.tileParts(ipu);
    totals = sumParts(parts, data.tiles);
    theirs = sumTheirs();
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
    const rows = parts.toReversed().filter((part) => part.bytes[tile]).map((part) => [nameMemory(part.name), formatTileBytes(part.bytes[tile]), part.name]);
    const other = theirs ? [[`${nameReports(data)[1]}`, `${formatTileBytes(theirs[tile])} (${formatChange(totals[tile], theirs[tile])})`]] : [];
    return [`Tile ${tile}: ${formatTileBytes(totals[tile])}`, [`of ${formatTileBytes(fit.limit_bytes)}`, formatShare(totals[tile] / fit.limit_bytes)], ...other, ...rows];
  }

  // One column a pixel: where several tiles share it, the fullest of them stands for all.
  function drawTiles(context, view) {
    const most = theirs ? theirs.reduce((high, bytes) => Math.max(high, bytes), 0) : 0;
    const highest = Math.max(most, totals.reduce((high, bytes) => Math.max(high, bytes), 0));
    const withLimit = limit.shows(highest, fit.limit_bytes);
    const top = Math.max(withLimit ? fit.limit_bytes : 0, highest, 1024) * 1.1;
    view.drawByteAxis(context, top, "KiB");
    const colours = parts.map((part) => colourOf(part.name));
    drawColumns(view, data.tiles, totals, (tile, x, width) => {
      let below = 0;
      parts.forEach((part, place) => {
        const bytes = part.bytes[tile];
        if (!bytes) return;
        const y = view.toHeight(below + bytes, top);
        context.fillStyle = colours[place];
        context.fillRect(x, y, width, view.toHeight(below, top) - y + 0.3);
        below += bytes;
      });
    });
    if (theirs) {
      context.fillStyle = themeColour("ink");
      drawColumns(view, data.tiles, theirs, (tile, x, width) => context.fillRect(x, view.toHeight(theirs[tile], top) - 1, Math.max(1, width), 2));
    }
    for (const tile of state.tiles) drawSelection(context, view, tile, tile + 1);
    if (withLimit) drawLimit(context, view, fit.limit_bytes, top, `${formatTileBytes(fit.limit_bytes)} usable`);
    const fullest = indexOfLargest(totals);
    drawMarker(context, view, fullest + 0.5, view.toHeight(totals[fullest], top), `max ${formatTileBytes(totals[fullest])}, tile ${fullest}`);
    view.drawBottomAxis(context, formatWhole, "tile");
  }

  function choose(tile, add = false) {
    if (!(tile >= 0 && tile < data.tiles)) return;
    const others = state.tiles.filter((other) => other !== tile);
    chooseAll(!add ? [tile] : state.tiles.includes(tile) && others.length ? others : [...others, tile]);
  }
  function chooseAll(tiles) {
    if (!tiles.length) return;
    state.tiles = tiles;
    state.tile = tiles.at(-1);
    number.value = state.tile;
    several.value = tiles.length > 1 ? tiles.join(", ") : "";
    address.note({ tile: state.tile, tiles: tiles.length > 1 ? tiles.join(",") : null });
    const { canvas } = plot;
    for (const [name, value] of [["valuemin", 0], ["valuemax", data.tiles - 1], ["valuenow", state.tile], ["valuetext", `tile ${state.tile}, ${formatTileBytes(totals[state.tile])}`]]) canvas.setAttribute(`aria-${name}`, value);
    if (tiles.length > 1) details.replaceChildren(makeTileColumns(data, state.ipu, tiles, parts, totals));
    else details.replaceChildren(makeTileDetails(data, state.ipu, state.tile, parts, totals[state.tile], theirs));
    paintAll();
  }

  fillLegend();
  const listed = readTiles(parameters.tiles ?? "", data.tiles);
  if (listed.length > 1) chooseAll(listed);
  else choose(parameters.tile !== undefined ? Number(parameters.tile) : indexOfLargest(totals));
  if (state.tile === null) choose(0);
  show(state.shown);
  function update(next) {
    const tile = next.tile === undefined ? undefined : Number(next.tile);
    const variable = readVariable(next.variable);
    if (variable >= 0) {
      state.variable = variable;
      fillLegend();
    }
    if ((next.shown === "plan" ? "plan" : "chart") !== state.shown) show(next.shown === "plan" ? "plan" : "chart");
    const tiles = readTiles(next.tiles ?? "", data.tiles);
    if (data.memory[Number(next.ipu)] && Number(next.ipu) !== state.ipu) changeIpu(Number(next.ipu), tile);
    else if (tiles.length > 1) chooseAll(tiles);
    else if (tile !== undefined) choose(tile);
    plan.paint();
  }
  function paintAll() {
    if (state.shown === "plan") plan.paint();
    else plot.paint();
  }
  const paint = () => {
    paintAll();
    charts?.paint();
  };
  return { paint, update, close: () => { plot.close(); plan.close(); charts?.close(); } };
}
