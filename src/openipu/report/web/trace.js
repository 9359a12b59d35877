// View: the bulk-synchronous phases over time. Every IPU has a lane with its stages; the modules and ops of the chosen
// one stand below.

const LANE = 21;
const KIND_LANE = 46;

function showTrace(data, root, parameters) {
  const { ops, steps } = data;
  const { lines, position, total } = buildTimelines(data);
  const several = lines.length > 1;
  const training = data.summary.program.training;
  root.append(make("h1", { text: "Execution trace" }),
    make("p", { class: "lead", text: `Modelled order and length of every step of one micro-batch${several ? " on its way through the IPUs" : ""}${training ? " and one update" : ""}: ` +
      `${formatWhole(total)} cycles, ${formatTime(data.microseconds(total))}.` +
      (data.other ? ` Below, the phases and kinds of step of ${nameReports(data)[1]} on the same axis.` : "") +
      (data.summary.pipeline ? " In the gaps of an IPU the pipeline works on other micro-batches." : "") }));
  if (!total) {
    root.append(make("p", { text: "The program has no steps that take time." }));
    return {};
  }
  const prepared = lines.map(() => null);
  const prepare = (index) => (prepared[index] ??= { lanes: buildLanes(data, lines[index]), sums: buildKindSums(data, lines[index]), stages: buildStageLane(data, lines[index]) });
  const state = { ipu: several ? readIpu(data, parameters) : 0, op: -1, step: -1, span: null, matches: null, next: 0 };
  const line = () => lines[state.ipu];
  const lanes = () => prepare(state.ipu).lanes;
  const rows = () => [...lanes().modules, lanes().ops];
  const overview = makeOverview(lines.length);
  const laneTop = () => plot.margins.top + (several ? overview.height + 20 : 0);
  const against = data.other ? new OtherTrace(data.other) : null;
  const end = Math.max(total, against?.total ?? 0);
  const opTop = () => laneTop() + lanes().modules.length * LANE;
  const kindTop = () => opTop() + LANE + 8;

  const plot = new Plot({
    label: `Steps over time in lanes: ${several ? "IPUs with their stages, then for the chosen IPU: " : ""}phase, modules, ops, kinds of step. Plus and minus zoom, arrow keys pan, 0 shows everything.`,
    role: "application",
    height: () => kindTop() + KIND_LANE + (against ? OtherTrace.height : 0) + 8 + 30,
    margins: { left: several ? 46 : 8, right: 8, top: 26, bottom: 30 },
    from: 0, to: end, minimumSpan: Math.max(total / 5e6, 40), wheel: true,
    draw: drawTrace, hover, pick,
    onRange: ([from, to]) => {
      clearTimeout(state.timer);
      state.timer = setTimeout(() => {
        address.note(to - from < end * 0.999 ? { from: Math.round(from), to: Math.round(to) } : { from: null, to: null });
        fillSums();
      }, 150);
    },
  });
  const search = make("input", { type: "search", id: "search", placeholder: "Op, module or line", "aria-label": "Search ops", value: parameters.find ?? "",
    oninput: () => find(search.value), onkeydown: (event) => event.key === "Enter" && jump() });
  const found = make("span", { class: "hint", role: "status", id: "found" });
  const details = make("div", { id: "op-details" });
  const sums = new RangeSums(data, choose);
  const choice = makeIpuChoice(data, state.ipu, (ipu) => changeIpu(ipu));
  root.append(
    make("section", { class: "panel", "aria-label": "Trace" },
      make("div", { class: "controls" }, choice, search, make("button", { type: "button", text: "Next match", onclick: jump }), found, make("span", { class: "push" }), plot.tools),
      sums.legend, plot.element, sums.sentence,
      make("p", { class: "hint", text: `Wheel or pinch zooms, drag pans. ${several ? "Above, every IPU with its stages and kinds of step; below, the chosen IPU: " : "Lanes from above: "}phase, modules, ops, kinds of step. Click for details; double-click to zoom to a stage, module or op.` })),
    details, sums.panel,
  );
  plot.canvas.addEventListener("dblclick", (event) => {
    const box = plot.canvas.getBoundingClientRect();
    const hit = hitSpan(event.clientX - box.left, event.clientY - box.top);
    if (hit?.span) showSpan(hit.span);
  });

  function changeIpu(ipu) {
    if (ipu === state.ipu) return;
    Object.assign(state, { ipu, span: null });
    choice.querySelector("select").value = ipu;
    address.note({ ipu });
    fillSums();
    plot.paint();
  }
  function fillSums() {
    const [from, to] = plot.range;
    sums.show(line(), prepare(state.ipu).sums.kinds, [Math.max(0, from), Math.min(total, to)], several);
  }
  function showSpan(span) {
    const { starts } = line();
    const room = (starts[span.to] - starts[span.from]) * 0.05;
    plot.show(starts[span.from] - room, starts[span.to] + room);
  }

  function drawTrace(context, view) {
    drawTimeAxis(context, view, data);
    if (several) drawOverview(context, view);
    const ink = themeColour("flame-ink");
    const fills = [themeColour("flame-a"), themeColour("flame-b")];
    const panel = themeColour("panel");
    lanes().modules.forEach((lane, depth) => {
      drawLane(context, view, line(), lane, laneTop() + depth * LANE, LANE - 2, (span, index) =>
        depth === 0 ? { fill: colourOf(span.label), ink: panel, selected: span === state.span } : { fill: fills[(index + depth) % 2], ink, selected: span === state.span });
    });
    const [plain, match] = [themeColour("line-strong"), themeColour("accent")];
    drawLane(context, view, line(), lanes().ops, opTop(), LANE - 2, (span) => {
      const isMatch = state.matches?.[span.op];
      return { fill: isMatch ? match : plain, alpha: state.matches && !isMatch ? 0.35 : 1, ink: isMatch ? panel : themeColour("ink"), selected: span.op >= 0 && span.op === state.op };
    });
    drawKinds(context, view, data, line(), prepare(state.ipu).sums, kindTop(), KIND_LANE);
    if (state.step >= 0) drawStepFrame(context, view, line().starts, position[state.step], kindTop() - 1, KIND_LANE + 2);
    against?.draw(context, view, state.ipu, kindTop() + KIND_LANE, nameReports(data)[1]);
    view.drawBottomAxis(context, (cycles) => `${formatWhole(cycles)} cycles`);
  }

  function drawOverview(context, view) {
    const panel = themeColour("panel");
    lines.forEach((own, index) => {
      const y = view.margins.top + index * overview.row;
      if (index === state.ipu) {
        context.fillStyle = themeColour("accent-soft");
        context.fillRect(0, y - 3, view.width, overview.row - 1);
      }
      context.fillStyle = themeColour(index === state.ipu ? "accent" : "muted");
      context.textAlign = "left";
      context.fillText(`IPU ${own.ipu}`, 4, y + (overview.stage + overview.kinds) / 2);
      drawLane(context, view, own, prepare(index).stages, y, overview.stage, (span) => ({ fill: colourOf(span.phase), ink: panel, selected: span === state.span }));
      drawKinds(context, view, data, own, prepare(index).sums, y + overview.stage + 1, overview.kinds);
    });
    context.fillStyle = themeColour("muted");
    context.textAlign = "left";
    context.fillText(`IPU ${line().ipu}: phase, modules, ops, kinds of step`, view.margins.left, laneTop() - 10);
  }

  function hitSpan(x, y) {
    const time = plot.toValue(x);
    const row = several ? Math.floor((y - plot.margins.top + 3) / overview.row) : lines.length;
    if (x < plot.margins.left) return row >= 0 && row < lines.length ? { ipu: row } : null;
    if (time < 0 || time >= total || y < plot.margins.top) return null;
    if (row < lines.length) {
      const here = lines[row].at(time);
      const inside = y - plot.margins.top - row * overview.row;
      if (inside > overview.stage) return { ipu: row, step: lines[row].step[here] };
      const lane = prepare(row).stages;
      const span = lane[findSpan(lane, here)];
      return { ipu: row, step: lines[row].step[here], span: span && span.from <= here ? span : null };
    }
    const here = line().at(time);
    const step = line().step[here];
    if (y >= kindTop() && y < kindTop() + KIND_LANE) return step < 0 ? null : { step };
    const lane = rows()[Math.floor((y - laneTop()) / LANE)];
    if (y < laneTop() || !lane || step < 0) return null;
    const span = lane[findSpan(lane, here)];
    return span && span.from <= here ? { step, span } : null;
  }

  function timeRows(cycles) {
    return [["cycles", formatWhole(cycles)], ["time", formatTime(data.microseconds(cycles))], ["of what is shown here", formatShare(cycles / total)]];
  }
  function hover(x, y) {
    if (against && y >= kindTop() + KIND_LANE) return against.describe(plot, state.ipu, x, nameReports(data)[1]);
    const hit = hitSpan(x, y);
    if (!hit) return null;
    const { starts, ipu } = lines[hit.ipu ?? state.ipu];
    if (hit.span && hit.span.op < 0) return [hit.span.path || hit.span.label, ...timeRows(starts[hit.span.to] - starts[hit.span.from])];
    if (hit.span) return [shortenOp(ops.text("op", hit.span.op)), ...timeRows(ops.cycles[hit.span.op]), [ops.text("module", hit.span.op), shortenLine(ops.text("line", hit.span.op))]];
    const { step } = hit;
    if (step === undefined || step < 0) return [`IPU ${ipu}`, ["other IPUs' turn", "", "idle"]];
    const op = steps.op[step];
    return [`Step ${formatWhole(step)}: ${steps.text("name", step)}`, [steps.text("kind", step), `${formatWhole(steps.cycles[step])} cycles`, steps.text("kind", step)],
      ["time", formatTime(data.microseconds(steps.cycles[step]))], ["tiles", formatWhole(steps.tiles[step])], ...(several ? [["IPU, stage", `${steps.ipu[step]}, ${steps.stage[step]}`]] : []),
      ...(steps.moved_bytes[step] ? [["moved", formatBytes(steps.moved_bytes[step])]] : []), ...(op >= 0 ? [[shortenOp(ops.text("op", op)), ops.text("module", op)]] : [])];
  }
  function pick(x, y) {
    const hit = hitSpan(x, y);
    if (!hit) return;
    if (hit.ipu !== undefined) changeIpu(hit.ipu);
    if (hit.span && hit.span.op < 0) chooseSpan(hit.span);
    else if (hit.step >= 0) choose(steps.op[hit.step], hit.span ? -1 : hit.step);
  }

  function chooseSpan(span) {
    Object.assign(state, { span, op: -1, step: -1 });
    const { starts, step } = line();
    const inside = new Set();
    for (let place = span.from; place < span.to; place++) if (step[place] >= 0 && steps.op[step[place]] >= 0) inside.add(steps.op[step[place]]);
    const cycles = starts[span.to] - starts[span.from];
    details.replaceChildren(makePanel(span.label, makeFacts(span.label, [
      ["Path", span.path || span.label],
      ["IPU", several ? line().ipu : null],
      ["Cycles", formatWhole(cycles)],
      ["Time", formatTime(data.microseconds(cycles))],
      ["Steps", `${formatWhole(step[span.from])} to ${formatWhole(step[span.to - 1])}`],
      ["Ops", formatWhole(inside.size)],
    ])));
    announce(`${span.label} chosen`);
    plot.paint();
  }
  function choose(op, step) {
    const first = step >= 0 ? step : op >= 0 ? ops.first_step[op] : -1;
    if (several && first >= 0) changeIpu(Math.max(0, lines.findIndex((own) => own.ipu === steps.ipu[first])));
    Object.assign(state, { op, step, span: null });
    address.note({ op: op >= 0 ? op : null });
    details.replaceChildren(makeOpDetails(data, op, step));
    announce(op >= 0 ? `${ops.text("op", op)} chosen` : "Step chosen");
    plot.paint();
  }

  function find(text) {
    address.note({ find: text });
    state.next = 0;
    state.order = [];
    state.matches = null;
    found.textContent = "";
    if (text.trim()) {
      state.matches = new Uint8Array(ops.length);
      let cycles = 0;
      for (const op of findOps(data, text)) {
        state.matches[op] = 1;
        state.order.push(op);
        cycles += ops.cycles[op];
      }
      const whole = several ? steps.cycles.reduce((sum, each) => sum + each, 0) : total;
      found.textContent = `${formatWhole(state.order.length)} ops, ${formatShare(cycles / whole)} of the cycles here`;
    }
    plot.paint();
  }
  function showOp(op) {
    choose(op, -1);
    const start = line().starts[position[ops.first_step[op]]];
    const middle = start + ops.cycles[op] / 2;
    const width = Math.max(ops.cycles[op] * 12, total / 400);
    plot.show(middle - width / 2, middle + width / 2);
  }
  function jump() {
    if (state.order?.length) showOp(state.order[state.next++ % state.order.length]);
  }

  // A stage of the pipeline, as its view links to it.
  function showStage(stage, phase) {
    const lane = prepare(state.ipu).stages.filter((span) => span.stage === stage && phase.split(" ").includes(span.phase));
    if (!lane.length) return;
    chooseSpan(lane[0]);
    showSpan({ from: lane[0].from, to: lane.at(-1).to });
  }

  function apply(next) {
    if (next.ipu !== undefined && lines[Number(next.ipu)]) changeIpu(Number(next.ipu));
    const op = Number(next.op);
    if (next.op !== undefined && op >= 0 && op < ops.length) {
      if (next.from === undefined) showOp(op);
      else choose(op, -1);
    } else if (next.stage !== undefined) showStage(Number(next.stage), next.phase ?? "forward backward");
    if (next.from !== undefined && next.to !== undefined && Number(next.to) > Number(next.from)) plot.show(Number(next.from), Number(next.to));
  }
  fillSums();
  apply(parameters);
  if (parameters.find) find(parameters.find);
  return { paint: () => plot.paint(), close: () => { clearTimeout(state.timer); plot.close(); }, update: apply };
}

// Heights of the rows of all IPUs: less each where there are many.
function makeOverview(count) {
  const [stage, kinds, gap] = count > 8 ? [11, 5, 5] : [17, 9, 8];
  const row = stage + 1 + kinds + gap;
  return { stage, kinds, row, height: count * row };
}

function drawTimeAxis(context, view, data) {
  const [from, to] = view.range.map((cycles) => data.microseconds(cycles));
  const step = niceStep(to - from, view.plotWidth / 110);
  const decimals = Math.max(0, -Math.floor(Math.log10(step)));
  context.fillStyle = themeColour("muted");
  context.strokeStyle = themeColour("line");
  context.beginPath();
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) {
    const x = view.margins.left + ((value - from) / (to - from)) * view.plotWidth;
    context.moveTo(x, 17);
    context.lineTo(x, view.height - view.margins.bottom);
    context.textAlign = x < 30 ? "left" : x > view.width - 40 ? "right" : "center";
    context.fillText(`${decimals ? value.toFixed(decimals) : formatWhole(value)} µs`, x, 9);
  }
  context.stroke();
}

function drawStepFrame(context, view, starts, place, y, height) {
  const edge = view.width - view.margins.right;
  const [left, right] = [view.toPixel(starts[place]), view.toPixel(starts[place + 1])];
  if (right <= view.margins.left || left >= edge) return;
  const shown = Math.max(view.margins.left, left);
  context.strokeStyle = themeColour("ink");
  context.lineWidth = 1.5;
  context.strokeRect(shown, y, Math.max(2, Math.min(right, edge) - shown), height);
  context.lineWidth = 1;
}
