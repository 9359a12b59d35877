// View: how micro-batches flow through the stages of a pipeline. Shown only where there is one.

const passOf = (stage) => (stage.forward && stage.backward ? "forward and backward" : stage.forward ? "forward" : "backward");
const letterOf = (stage) => (stage.forward ? "F" : "") + (stage.backward ? "B" : "");

function showPipeline(data, root, parameters) {
  const { pipeline, program, options } = data.summary;
  const ticks = new Ticks(pipeline);
  const updates = sumUpdates(data);
  const end = ticks.end + Math.max(0, ...updates.values());
  const rounds = program.training ? (options.device_iterations ?? 1) : 1;
  const stageCount = new Set(pipeline.stages.map((stage) => stage.stage)).size;
  root.append(make("h1", { text: "Pipeline" }),
    make("p", { class: "lead", text: `Modelled: ${countOf(stageCount, "stage")} on ${countOf(pipeline.ipus.length, "IPU")}, ${formatWhole(ticks.batches)} micro-batches${program.training ? " between two weight updates" : ""}. ` +
      `In each tick every stage works on another micro-batch, and all wait for the slowest.${rounds > 1 ? ` A call does this ${formatWhole(rounds)} times.` : ""}` }),
    makePipelineFigures(data), data.other ? makePipelineComparison(data) : "");

  const state = { batch: null, stage: null, whole: parameters.ticks === "all", axis: null };
  const row = pipeline.ipus.length > 8 ? 28 : 42;
  const block = row - 10;
  const places = new Map(pipeline.ipus.map((load, index) => [load.ipu, index]));
  const settings = {
    label: `Stages over time, one row per IPU; ${formatWhole(ticks.batches)} micro-batches. Arrow keys choose a micro-batch, plus and minus zoom.`,
    name: "pipeline",
    role: "slider",
    height: () => 46 + pipeline.ipus.length * row + 30,
    margins: { left: 78, right: 8, top: 46, bottom: 30 },
    from: 0, to: 1, minimumSpan: 1, draw, hover,
    pick: (x, y) => choose(hit(x, y)?.block ?? null),
    move: (distance) => chooseBatch(Math.min(ticks.batches - 1, Math.max(0, (state.batch ?? -1) + distance)), state.stage ?? 0),
  };
  arrange();
  const plot = new Plot(settings);
  const whole = make("input", { type: "checkbox", id: "all-ticks", checked: state.whole, onchange: () => {
    state.whole = whole.checked;
    address.note({ ticks: state.whole ? "all" : null });
    arrange();
    plot.show(settings.from, settings.to);
  } });
  const details = make("div", { id: "batch-details" });
  const legend = ["forward", "backward", "forward and backward", "update", "idle"].filter((name) =>
    name === "idle" || (name === "update" ? updates.size : pipeline.stages.some((stage) => passOf(stage) === name)));
  root.append(
    make("section", { class: "panel", "aria-label": "Stages over time" },
      make("div", { class: "controls" },
        make("ul", { class: "legend", "aria-label": "Colours", style: "margin: 0" }, ...legend.map((name) => make("li", {}, makeSwatch(name), name))),
        make("span", { class: "push" }), state.axis.isCut || state.whole ? make("label", {}, whole, "All ticks") : null, plot.saves, plot.tools),
      plot.element,
      make("p", { class: "hint", text: `The number on a block is its micro-batch, counted from 0. Click a block to follow its micro-batch; arrow keys go to the next one. ${WHEEL_HINT} Drag pans. ` }, make("a", { href: address.link({ view: "trace", call: "whole" }), text: "Every step of these ticks in the trace" }))),
    details,
    make("div", { class: "grid wide" }, makePanel("Stages", makeStageTable(data)), makePanel("IPUs", makeLoadTable(data))),
  );

  function arrange() {
    state.axis = new TickAxis(ticks, end, state.whole);
    Object.assign(settings, { to: state.axis.length, minimumSpan: Math.max(1, state.axis.length / (ticks.count * 50)) });
  }
  const rowTop = (ipu) => plot.margins.top + places.get(ipu) * row + 5;

  function draw(context, view) {
    state.colours = Object.fromEntries(["forward", "backward", "forward and backward", "update", "idle"].map((name) => [name, colourOf(name)]));
    state.ink = themeColour("panel");
    drawMarks(context, view);
    const edges = [view.margins.left, view.width - view.margins.right];
    const span = (from, to) => [from, to].map((cycles) => Math.min(edges[1], Math.max(edges[0], view.toPixel(state.axis.toPlace(cycles)))));
    drawParts(context, span);
    for (const load of pipeline.ipus) drawRow(context, view, load, span);
    const [low, high] = view.range.map((place) => ticks.at(state.axis.toCycles(place) ?? state.axis.cutStart));
    let last = -1;
    for (let tick = low; tick <= high; tick++) {
      if (state.axis.hides(tick)) continue;
      const x = Math.floor(view.toPixel(state.axis.toPlace(ticks.starts[tick + 1])));
      if (x === last) continue; // many ticks in one pixel: one stands for all
      last = x;
      for (const item of ticks.blocks(tick)) drawBlock(context, item, ...span(item.from, item.to));
    }
    context.globalAlpha = 1;
    for (const [ipu, cycles] of updates) {
      const [left, right] = span(ticks.end, ticks.end + cycles);
      context.fillStyle = state.colours.update;
      if (right > left) context.fillRect(left, rowTop(ipu), right - left, block);
    }
    if (state.axis.isCut) drawCut(context, view);
  }
  function drawRow(context, view, load, span) {
    const y = rowTop(load.ipu);
    const [left, right] = span(0, ticks.end);
    context.fillStyle = state.colours.idle;
    context.fillRect(left, y, right - left, block);
    context.textAlign = "left";
    context.fillStyle = themeColour("ink");
    context.fillText(`IPU ${load.ipu}`, 2, y + (row > 30 ? block / 2 - 7 : block / 2));
    if (row <= 30) return;
    context.fillStyle = themeColour("muted");
    context.fillText(`${formatShare(load.bubble_share)} idle`, 2, y + block / 2 + 9);
  }
  function drawBlock(context, item, left, right) {
    if (right <= left) return;
    const y = rowTop(item.stage.ipu);
    const isChosen = item.batch === state.batch;
    context.globalAlpha = state.batch === null || isChosen ? 1 : 0.4;
    context.fillStyle = state.colours[passOf(item.stage)];
    context.fillRect(left, y, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), block);
    if (isChosen && right - left > 4) {
      context.strokeStyle = themeColour("ink");
      context.lineWidth = item.stage.index === state.stage ? 3 : 1.5;
      context.strokeRect(left + 1, y + 1, right - left - 3, block - 2);
      context.lineWidth = 1;
    }
    context.fillStyle = state.ink;
    context.textAlign = "center";
    for (const text of [`${letterOf(item.stage)} ${item.batch}`, String(item.batch)]) {
      if (context.measureText(text).width + 2 > right - left) continue;
      context.fillText(text, (left + right) / 2, y + block / 2 + 0.5);
      break;
    }
  }
  // What the pipeline is doing: fill, steady, drain, update.
  function drawParts(context, span) {
    const steadyEnd = ticks.fill + ticks.steady;
    const steady = ticks.batches >= ticks.stages.length ? "steady" : "all under way";
    const parts = [["fill", 0, ticks.fill], [steady, ticks.fill, steadyEnd], ["drain", steadyEnd, ticks.count]].map(([name, from, to]) => [name, countOf(to - from, "tick"), ticks.starts[from], ticks.starts[to]]);
    if (updates.size) parts.push(["update", "", ticks.end, end]);
    context.textAlign = "center";
    for (const [name, count, from, to] of parts) {
      const [left, right] = span(from, to);
      if (right - left < 3) continue;
      context.fillStyle = themeColour("line-strong");
      context.fillRect(left + 1, 39, right - left - 2, 2);
      context.fillStyle = themeColour("muted");
      for (const text of [`${name} ${count}`.trim(), name]) {
        if (context.measureText(text).width > right - left) continue;
        context.fillText(text, (left + right) / 2, 30);
        break;
      }
    }
  }
  function drawMarks(context, view) {
    const base = view.height - view.margins.bottom;
    const count = Math.max(5, view.plotWidth / 120); // labels that would touch are left out
    const [size, name] = chooseTimeUnit(data.microseconds(view.range[1]));
    for (const [perUnit, unit, y] of [[(size * data.clock) / 1e6, name, 10], [1, "cycles", base + 14]]) {
      const { marks, decimals } = state.axis.listMarks(view.range, perUnit, count);
      let free = 0;
      context.strokeStyle = themeColour("line");
      context.fillStyle = themeColour("muted");
      context.textAlign = "center";
      for (const [value, place] of marks) {
        const text = `${Math.abs(value) < 1e-9 ? 0 : decimals && unit !== "cycles" ? value.toFixed(decimals) : formatWhole(value)} ${unit}`;
        const half = context.measureText(text).width / 2;
        const x = view.toPixel(place);
        if (x < view.margins.left - 1 || x - half < free || x + half > view.width) continue;
        free = x + half + 8;
        context.fillText(text, x, y);
        context.beginPath();
        context.moveTo(x, unit === "cycles" ? base : 18);
        context.lineTo(x, unit === "cycles" ? base + 4 : base);
        context.stroke();
      }
    }
  }
  function drawCut(context, view) {
    const [left, right] = [state.axis.cutStart, state.axis.cutStart + state.axis.gap].map((place) => view.toPixel(place));
    if (right < view.margins.left || left > view.width) return;
    const [top, bottom] = [view.margins.top - 2, view.height - view.margins.bottom];
    context.fillStyle = themeColour("panel");
    context.fillRect(Math.max(view.margins.left, left), top, right - Math.max(view.margins.left, left), bottom - top);
    context.fillStyle = themeColour("muted");
    context.textAlign = "center";
    ["⋯", formatWhole(state.axis.cutTo - state.axis.cutFrom), "ticks"].forEach((text, place) => {
      if (context.measureText(text).width <= right - left) context.fillText(text, (left + right) / 2, (top + bottom) / 2 + 14 * place - 8);
    });
  }

  function hit(x, y) {
    const load = pipeline.ipus[Math.floor((y - plot.margins.top) / row)];
    const cycles = state.axis.toCycles(plot.toValue(x));
    if (!load || y < plot.margins.top || x < plot.margins.left || cycles === null || cycles < 0 || cycles > end) return null;
    if (cycles >= ticks.end) return { load, isUpdate: cycles < ticks.end + (updates.get(load.ipu) ?? 0) };
    const tick = ticks.at(cycles);
    const own = ticks.blocks(tick).filter((item) => item.stage.ipu === load.ipu);
    return { load, tick, own, block: own.find((item) => cycles >= item.from && cycles < item.to) };
  }
  function hover(x, y) {
    const found = hit(x, y);
    if (!found) return null;
    const time = (cycles) => `${formatWhole(cycles)} cycles, ${formatTime(data.microseconds(cycles))}`;
    if (found.isUpdate) return [`IPU ${found.load.ipu}: weight update`, ["takes", time(updates.get(found.load.ipu)), "update"]];
    if (found.tick === undefined) return null;
    if (found.block) {
      const { stage, batch, from, tick } = found.block;
      return [`Micro-batch ${batch}, stage ${stage.stage} ${passOf(stage)}`, ["takes", time(stage.cycles), passOf(stage)], ["begins at", time(from)], ["tick", formatWhole(tick)], ["IPU", stage.ipu]];
    }
    const pace = ticks.blocks(found.tick).reduce((latest, item) => (item.to > latest.to ? item : latest));
    return [`IPU ${found.load.ipu} is idle`, found.own.length ? ["done, waits for", `IPU ${pace.stage.ipu}`, "idle"] : ["no micro-batch here", found.tick < ticks.fill ? "yet" : "any more", "idle"], ["tick", formatWhole(found.tick)]];
  }

  function choose(item) {
    if (item) chooseBatch(item.batch, item.stage.index);
    else {
      Object.assign(state, { batch: null, stage: null });
      tellValue(0, "none chosen");
      address.note({ batch: null, stage: null });
      details.replaceChildren();
      plot.paint();
    }
  }
  function tellValue(batch, text) {
    for (const [name, value] of [["valuemin", 0], ["valuemax", ticks.batches - 1], ["valuenow", batch], ["valuetext", text]]) plot.canvas.setAttribute(`aria-${name}`, value);
  }
  function chooseBatch(batch, index) {
    const stage = pipeline.stages[index];
    if (!stage || !(batch >= 0 && batch < ticks.batches)) return;
    Object.assign(state, { batch, stage: index });
    address.note({ batch, stage: index });
    tellValue(batch, `micro-batch ${batch}`);
    details.replaceChildren(makeBatchDetails(data, ticks, batch, stage));
    plot.paint();
  }

  function apply(next) {
    if (next.batch !== undefined) chooseBatch(Number(next.batch), Number(next.stage ?? 0));
  }
  tellValue(0, "none chosen");
  apply(parameters);
  return { paint: () => plot.paint(), close: () => plot.close(), update: apply };
}

// Cycles of one update on each IPU.
function sumUpdates({ steps }) {
  const found = new Map();
  for (let step = 0; step < steps.length; step++) {
    if (steps.text("phase", step) !== "update" || steps.per_call[step]) continue;
    found.set(steps.ipu[step], (found.get(steps.ipu[step]) ?? 0) + steps.cycles[step]);
  }
  return found;
}
