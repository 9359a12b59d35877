// View: live bytes at every step of the program, on all tiles or on one; several steps side by side.

function showLiveness(data, root, parameters) {
  const { fit } = data.summary;
  const steps = data.steps.length;
  const state = { ipu: readIpu(data, parameters), step: null, steps: [], tile: fit.peak_tile, one: parameters.tile !== undefined };
  if (state.one) state.tile = clampTile(Number(parameters.tile));
  let series = makeSeries(data);
  let theirs = makeTheirs();
  root.append(make("h1", { text: "Liveness" }),
    make("p", { class: "lead", text: `Modelled bytes that are live at each step of one micro-batch${data.summary.program.training ? " and one update" : ""}: always-live memory below, everything else on top by kind.` }));
  if (!steps) {
    root.append(make("p", { text: "The program has no steps." }));
    return {};
  }

  const plot = new Plot({
    label: `Live bytes at each of ${steps} steps. Arrow keys choose a step.`,
    name: "liveness",
    role: "slider",
    height: (width) => (width < 600 ? 280 : 380),
    margins: { top: 30 },
    from: 0, to: steps, minimumSpan: Math.min(8, steps), tickStep: 1,
    draw: drawSteps,
    hover: (x) => {
      const step = stepAt(x);
      return step === null ? null : describeStep(step);
    },
    pick: (x, y, event) => {
      const step = stepAt(x);
      if (step !== null) choose(step, event?.shiftKey);
    },
    move: (distance) => choose(Math.min(steps - 1, Math.max(0, (state.step ?? 0) + distance))),
  });
  const number = make("input", { type: "number", min: 0, max: steps - 1, id: "step", onchange: () => choose(Number(number.value)) });
  const several = make("input", { type: "text", id: "steps", size: 12, placeholder: "12, 340", "aria-label": "Several steps", onchange: () => chooseAll(readSteps(several.value, steps)) });
  const tileNumber = make("input", { type: "number", min: 0, max: data.tiles - 1, value: state.tile, "aria-label": "Tile", onchange: () => changeSource(true, Number(tileNumber.value)) });
  const all = make("button", { type: "button", text: "All tiles", onclick: () => changeSource(false) });
  const one = make("button", { type: "button", onclick: () => changeSource(true, fit.peak_tile) }, "Fullest tile");
  const withAlways = make("input", { type: "checkbox", id: "with-always", checked: parameters.always !== "no", onchange: () => {
    address.note({ always: withAlways.checked ? null : "no" });
    plot.paint();
  } });
  const limit = new LimitBox(parameters, () => plot.paint());
  const legend = make("ul", { class: "legend", "aria-label": "Key" });
  const details = make("div", { id: "step-details" });
  const choice = makeIpuChoice(data, state.ipu, changeIpu);
  root.append(
    make("section", { class: "panel", "aria-label": "Live bytes by step" },
      make("div", { class: "controls" }, choice,
        make("div", { class: "choice", role: "group", "aria-label": "Tiles shown" }, all, one), make("label", {}, "Tile", tileNumber), make("label", {}, "Step", number), make("label", {}, "Steps", several),
        make("button", { type: "button", text: "Peak", onclick: () => choose(indexOfLargest(series.live)) }), make("label", {}, withAlways, "Always live"), limit.element, make("span", { class: "push" }), plot.saves, plot.tools),
      legend, plot.element,
      make("p", { class: "hint", text: `Click a step for the variables live there, with Shift to put several side by side. Arrow keys move by one step, with Shift by ten. ${WHEEL_HINT} Drag pans.` })),
    details,
  );

  function changeIpu(ipu) {
    state.ipu = ipu;
    address.note({ ipu });
    refresh();
  }
  function clampTile(tile) {
    return Math.min(data.tiles - 1, Math.max(0, Math.floor(tile) || 0));
  }
  function makeTheirs() {
    return data.other?.memory[state.ipu] && state.tile < data.other.tiles ? makeSeries(data.other) : null;
  }
  function makeSeries(report) {
    const memory = report.memory[state.ipu];
    const code = Object.values(memory.categories);
    const always = (tile) => code.reduce((sum, bytes) => sum + bytes[tile], memory.alwaysLive[tile]);
    if (state.one) {
      const live = report.liveOnTile(memory.ipu, state.tile);
      return { live, kinds: report.liveByKind(memory.ipu, live, state.tile), always: always(state.tile), limit: fit.limit_bytes, format: formatTileBytes };
    }
    let sum = 0;
    for (let tile = 0; tile < report.tiles; tile++) sum += always(tile);
    return { live: memory.liveByStep, kinds: report.liveByKind(memory.ipu, memory.liveByStep), always: sum, limit: fit.limit_bytes * data.tiles, format: formatBytes };
  }
  function changeSource(isOne, tile) {
    state.one = isOne;
    if (tile !== undefined) state.tile = clampTile(tile);
    tileNumber.value = state.tile;
    address.note({ tile: isOne ? state.tile : null });
    refresh();
  }
  function refresh() {
    series = makeSeries(data);
    theirs = makeTheirs();
    all.setAttribute("aria-pressed", !state.one);
    one.setAttribute("aria-pressed", state.one && state.tile === fit.peak_tile);
    const peak = indexOfLargest(series.live);
    legend.replaceChildren(
      make("li", {}, make("span", { class: "name", text: "not always live " }), make("b", { text: series.format(series.live[peak]) }), " at its peak:"),
      ...[...series.kinds.toReversed().map(([kind, bytes]) => [kind, bytes[peak], ""]).filter(([kind]) => kind !== "not always live"), ["always live", series.always, ""]].map(([name, bytes, note]) =>
        make("li", {}, makeSwatch(name), make("span", { class: "name", text: `${name} ` }), make("b", { text: series.format(bytes) }), note)),
      ...(theirs ? [make("li", {}, make("span", { class: "line-key" }), make("span", { class: "name", text: `${nameReports(data)[1]}, its steps stretched to the same width ` }), make("b", { text: series.format(theirs.always + theirs.live.reduce((most, bytes) => Math.max(most, bytes), 0)) }), " at its peak")] : []));
    if (state.steps.length) chooseAll(state.steps);
    plot.paint();
  }
  function stepAt(x) {
    const step = Math.floor(plot.toValue(x));
    return x < plot.margins.left || step < 0 || step >= steps ? null : step;
  }
  function describeStep(step) {
    const { steps: table } = data;
    const op = table.op[step];
    return [
      `Step ${formatWhole(step)}: ${series.format(series.always + series.live[step])}`,
      ["not always live", series.format(series.live[step])],
      ...series.kinds.toReversed().filter(([, bytes]) => bytes[step]).map(([kind, bytes]) => [kind, series.format(bytes[step]), kind]),
      ["always live", series.format(series.always), "always live"],
      ...(state.one ? [] : [["fullest tile, not always live", formatTileBytes(data.memory[state.ipu].fullestByStep[step])]]),
      [table.text("phase", step), `${table.text("kind", step)}: ${table.text("name", step)}`, table.text("kind", step)],
      ...(op >= 0 ? [[shortenOp(data.ops.text("op", op)), data.ops.text("module", op)]] : []),
    ];
  }

  // Where several steps share a pixel the highest of them is drawn, so that no peak is lost.
  function drawSteps(context, view) {
    const peak = indexOfLargest(series.live);
    const base = withAlways.checked ? series.always : 0;
    const highest = base + series.live[peak];
    const theirBase = theirs && withAlways.checked ? theirs.always : 0;
    const theirHighest = theirs ? theirBase + theirs.live.reduce((most, bytes) => Math.max(most, bytes), 0) : 0;
    const withLimit = limit.shows(base ? highest : 0, series.limit);
    const top = Math.max(highest, theirHighest, withLimit ? series.limit : 0, 1024) * 1.1;
    view.drawByteAxis(context, top, state.one ? "KiB" : null);
    const right = view.width - view.margins.right;
    const ground = view.toHeight(0, top);
    const shelf = view.toHeight(base, top);
    context.fillStyle = colourOf("always live");
    context.fillRect(view.margins.left, shelf, right - view.margins.left, ground - shelf);
    const colours = series.kinds.map(([kind]) => colourOf(kind));
    for (let pixel = 0; pixel < view.plotWidth; pixel++) {
      const start = Math.max(0, Math.floor(view.toValue(view.margins.left + pixel)));
      const stop = Math.min(steps, Math.max(start + 1, Math.ceil(view.toValue(view.margins.left + pixel + 1))));
      const [x, end] = [pixel, pixel + 1].map((place) => view.snap(view.margins.left + place));
      let worst = start;
      for (let step = start; step < stop; step++) if (series.live[step] > series.live[worst]) worst = step;
      let below = base;
      series.kinds.forEach(([, bytes], place) => {
        if (!bytes[worst]) return;
        const y = view.toHeight(below + bytes[worst], top);
        context.fillStyle = colours[place];
        context.fillRect(x, y, end - x, view.toHeight(below, top) - y);
        below += bytes[worst];
      });
    }
    if (theirs?.live.length) drawTheirs(context, view, theirBase, top);
    drawPhases(context, view);
    for (const step of state.steps) drawSelection(context, view, step, step + 1);
    if (withLimit) drawLimit(context, view, series.limit, top, `${series.format(series.limit)} usable`);
    drawMarker(context, view, peak + 0.5, view.toHeight(highest, top), `max ${series.format(highest)}, step ${formatWhole(peak)}`);
    view.drawBottomAxis(context, formatWhole, "step");
  }

  // The other report has steps of its own: its first and last stand where ours do.
  function drawTheirs(context, view, base, top) {
    const scale = theirs.live.length / steps;
    context.strokeStyle = themeColour("ink");
    context.lineWidth = 1.5;
    context.beginPath();
    for (let pixel = 0; pixel < view.plotWidth; pixel++) {
      const start = Math.max(0, Math.floor(view.toValue(view.margins.left + pixel) * scale));
      const stop = Math.min(theirs.live.length, Math.max(start + 1, Math.ceil(view.toValue(view.margins.left + pixel + 1) * scale)));
      let most = 0;
      for (let step = start; step < stop; step++) if (theirs.live[step] > most) most = theirs.live[step];
      context.lineTo(view.margins.left + pixel, view.toHeight(base + most, top));
    }
    context.stroke();
    context.lineWidth = 1;
  }

  function drawPhases(context, view) {
    for (const { phase, from, to } of listPhases(data)) {
      const left = Math.max(view.margins.left, view.toPixel(from));
      const right = Math.min(view.width - view.margins.right, view.toPixel(to));
      if (right <= left) continue;
      context.fillStyle = colourOf(phase);
      context.fillRect(left, 6, Math.max(1, right - left - 1), 4);
      context.textAlign = "left";
      context.fillStyle = themeColour("muted");
      if (context.measureText(phase).width + 6 < right - left) context.fillText(phase, left + 2, 19);
    }
  }

  function choose(step, add = false) {
    if (!(step >= 0 && step < steps)) return;
    const others = state.steps.filter((other) => other !== step);
    chooseAll(!add ? [step] : state.steps.includes(step) && others.length ? others : [...others, step]);
  }
  function chooseAll(chosen) {
    if (!chosen.length) return;
    state.steps = chosen;
    const step = (state.step = chosen.at(-1));
    number.value = step;
    several.value = chosen.length > 1 ? chosen.join(", ") : "";
    address.note({ step, steps: chosen.length > 1 ? chosen.join(",") : null });
    const total = series.always + series.live[step];
    for (const [name, value] of [["valuemin", 0], ["valuemax", steps - 1], ["valuenow", step], ["valuetext", `step ${step}, ${series.format(total)}`]]) plot.canvas.setAttribute(`aria-${name}`, value);
    details.replaceChildren(chosen.length > 1 ? makeStepColumns(data, state, chosen, series) : makeStepDetails(data, state, total, series));
    plot.paint();
  }

  state.step = Number(parameters.step ?? (state.one ? indexOfLargest(series.live) : fit.peak_step));
  if (!(state.step >= 0 && state.step < steps)) state.step = indexOfLargest(series.live);
  const listed = readSteps(parameters.steps ?? "", steps);
  state.steps = listed.length > 1 ? listed : [state.step];
  refresh();
  function update(next) {
    const chosen = readSteps(next.steps ?? "", steps);
    if (chosen.length > 1) chooseAll(chosen);
    else if (next.step !== undefined) choose(Number(next.step));
  }
  return { paint: () => plot.paint(), close: () => plot.close(), update };
}

// Runs of steps of one phase, in order.
function listPhases(data) {
  const found = [];
  for (let step = 0; step < data.steps.length; step++) {
    const phase = data.steps.text("phase", step);
    const last = found.at(-1);
    if (last?.phase === phase) last.to = step + 1;
    else found.push({ phase, from: step, to: step + 1 });
  }
  return found;
}

function makeStepDetails(data, { ipu, step, tile, one }, total, series) {
  const { steps, ops, variables } = data;
  const op = steps.op[step];
  const rows = [];
  for (let variable = 0; variable < variables.length; variable++) {
    if (variables.ipu[variable] !== data.memory[ipu].ipu || variables.always_live[variable] || !data.isLive(variable, step)) continue;
    const bytes = one ? data.bytesOnTile(variable, tile) : variables.total_bytes[variable];
    if (bytes) rows.push({ variable, bytes });
  }
  const where = one ? `tile ${tile}` : "all tiles";
  const facts = makeFacts(`Step ${step}`, [
    [`Live on ${where}`, series.format(total)],
    ["Not always live", series.format(series.live[step])],
    ...series.kinds.toReversed().filter(([, bytes]) => bytes[step]).map(([kind, bytes]) => [`Not always live: ${kind}`, series.format(bytes[step])]),
    ["Always live", series.format(series.always)],
    ["Kind", `${steps.text("kind", step)}: ${steps.text("name", step)}`],
    ["Phase", steps.text("phase", step)],
    ["IPU, stage of the step", data.memory.length > 1 ? `${steps.ipu[step]}, ${steps.stage[step]}` : null],
    ["Cycles", `${formatWhole(steps.cycles[step])} (${formatTime(data.microseconds(steps.cycles[step]))})`],
    ["Op", op >= 0 ? make("a", { href: address.link({ view: "trace", op }), text: shortenOp(ops.text("op", op)) }) : null],
    ["Module", op >= 0 && ops.text("module", op) ? makePath(ops.text("module", op)) : null],
    ["Line", op >= 0 ? ops.text("line", op) : null],
  ]);
  facts.id = "step-facts";
  return make("div", {}, makePanel(`Step ${formatWhole(step)}`, facts),
    makePanel(`Variables live at step ${formatWhole(step)}, without the always live (${formatWhole(rows.length)})`,
      makeVariableTable(data, rows, one ? "On the tile" : "Bytes", `Variables live at step ${step}`, "step-variables")));
}
