// View: the bulk-synchronous phases over time. Every IPU has a lane with its stages; the modules and ops of the chosen
// one stand below.

const LANE = 21;
const KIND_LANE = 46;

function showTrace(data, root, parameters) {
  const { ops, steps } = data;
  const { lines, position, total } = buildTimelines(data);
  const several = lines.length > 1;
  const schedules = { once: scheduleOnce(lines, total), call: total ? scheduleCall(data, lines) : null };
  const state = { ipu: several ? readIpu(data, parameters) : 0, op: -1, step: -1, span: null, matches: null, next: 0, selected: null, isWhole: parameters.call === "whole" && schedules.call !== null };
  const schedule = () => (state.isWhole ? schedules.call : schedules.once);
  const lead = make("p", { class: "lead" });
  root.append(make("h1", { text: "Execution trace" }), lead);
  if (!total) {
    root.append(make("p", { text: "The program has no steps that take time." }));
    return {};
  }
  const prepared = lines.map(() => null);
  const prepare = (index) => (prepared[index] ??= { lanes: buildLanes(data, lines[index]), sums: buildKindSums(data, lines[index]), stages: buildStageLane(data, lines[index]) });
  const line = () => lines[state.ipu];
  const lanes = () => prepare(state.ipu).lanes;
  const rows = () => [...lanes().modules, lanes().ops];
  const overview = makeOverview(lines.length);
  const laneTop = () => plot.margins.top + (several ? overview.height + 20 : 0);
  const against = data.other ? new OtherTrace(data.other, data.clock) : null;
  const findEnd = () => Math.max(schedule().total, against?.end(state.isWhole) ?? 0);
  const opTop = () => laneTop() + lanes().modules.length * LANE;
  const kindTop = () => opTop() + LANE + 8;

  const settings = {
    label: `Steps over time in lanes: ${several ? "IPUs with their stages, then for the chosen IPU: " : ""}phase, modules, ops, kinds of step. Plus and minus zoom, arrow keys pan, 0 shows everything.`,
    name: "trace",
    role: "application",
    height: () => kindTop() + KIND_LANE + (against ? OtherTrace.height : 0) + 8 + 30,
    margins: { left: several ? 46 : 8, right: 8, top: 26, bottom: 30 },
    from: 0, to: findEnd(), minimumSpan: Math.max(total / 5e6, 40),
    draw: drawTrace, hover, pick, select,
    onRange: ([from, to]) => {
      clearTimeout(state.timer);
      state.timer = setTimeout(() => {
        address.note(to - from < settings.to * 0.999 ? { from: Math.round(from), to: Math.round(to) } : { from: null, to: null });
        fillSums();
      }, 150);
    },
  };
  const plot = new Plot(settings);
  const search = make("input", { type: "search", id: "search", placeholder: "Op, module or line", "aria-label": "Search ops", value: parameters.find ?? "",
    oninput: () => find(search.value), onkeydown: (event) => event.key === "Enter" && jump() });
  const found = make("span", { class: "hint", role: "status", id: "found" });
  const details = make("div", { id: "op-details" });
  const sums = new RangeSums(data, choose);
  const choice = makeIpuChoice(data, state.ipu, (ipu) => changeIpu(ipu));
  const lengths = schedules.call ? [["once", "One micro-batch"], ["whole", "Whole call"]].map(([name, text]) => make("button", { type: "button", "data-shown": name, text, onclick: () => showWhole(name === "whole") })) : [];
  const range = make("input", { type: "text", id: "selection", size: 18, placeholder: "from-to", onchange: () => select(readRange(range.value)) });
  const zoomTo = make("button", { type: "button", id: "zoom-to-selection", text: "Zoom to it", hidden: true, onclick: () => plot.show(...state.selected) });
  const clear = make("button", { type: "button", id: "clear-selection", text: "Clear", hidden: true, onclick: () => select(null) });
  root.append(
    data.other ? makeTraceDifferences(data) : "",
    make("section", { class: "panel", "aria-label": "Trace" },
      make("div", { class: "controls" }, lengths.length ? make("div", { class: "choice", role: "group", "aria-label": "Shown" }, ...lengths) : null, choice, search, make("button", { type: "button", text: "Next match", onclick: jump }), found,
        make("label", {}, "Select cycles", range), zoomTo, clear, make("span", { class: "push" }), plot.saves, plot.tools),
      sums.legend, plot.element, sums.sentence,
      make("p", { class: "hint", text: `${WHEEL_HINT} Drag pans, with Shift it selects a range and adds it up. ${several ? "Above, every IPU with its stages and kinds of step; below, the chosen IPU: " : "Lanes from above: "}phase, modules, ops, kinds of step. Click for details; double-click to zoom to a stage, module or op.` })),
    details, sums.panel,
  );
  plot.canvas.addEventListener("dblclick", (event) => {
    const box = plot.canvas.getBoundingClientRect();
    const hit = hitSpan(event.clientX - box.left, event.clientY - box.top);
    if (hit?.span) showSpan(hit.span, hit.offset);
  });

  function changeIpu(ipu) {
    if (ipu === state.ipu) return;
    Object.assign(state, { ipu, span: null });
    choice.querySelector("select").value = ipu;
    address.note({ ipu });
    fillSums();
    plot.paint();
  }
  // One micro-batch and one update, or everything that a call executes.
  function showWhole(isWhole) {
    Object.assign(state, { isWhole, selected: null });
    settings.to = findEnd();
    address.note({ call: isWhole ? "whole" : null });
    plot.show(0, settings.to);
    select(null);
    fillLead();
  }
  function fillLead() {
    lead.textContent = `${state.isWhole ? describeCall(data, schedule()) : describeMicroBatch(data, total, several, schedules.call)}` +
      (data.other ? ` Below, the phases and kinds of step of ${nameReports(data)[1]}, on the same axis of time.` : "");
    for (const button of lengths) button.setAttribute("aria-pressed", (button.dataset.shown === "whole") === state.isWhole);
  }
  // Between two cycles, or nothing.
  function select(wanted) {
    state.selected = wanted && wanted[1] > wanted[0] ? [Math.max(0, wanted[0]), Math.min(settings.to, wanted[1])] : null;
    const text = state.selected ? state.selected.map(Math.round).join("-") : "";
    range.value = text;
    zoomTo.hidden = clear.hidden = !state.selected;
    address.note({ selected: text || null });
    fillSums();
    plot.paint();
  }
  function fillSums() {
    const [from, to] = state.selected ?? plot.range;
    sums.show({ schedule: schedule(), place: state.ipu, kinds: prepare(state.ipu).sums.kinds, range: [Math.max(0, from), Math.min(schedule().total, to)], several, isSelected: state.selected !== null, isWhole: state.isWhole });
  }
  function showSpan(span, offset = schedule().find(state.ipu, line().starts[span.from]) - line().starts[span.from]) {
    const { starts } = line();
    const room = (starts[span.to] - starts[span.from]) * 0.05;
    plot.show(starts[span.from] + offset - room, starts[span.to] + offset + room);
  }

  // Lanes of one IPU, block by block; of what is too narrow to see a block stands for its pixel.
  function drawLanes(context, view, place, lane, y, height, style) {
    schedule().visit(place, view, (block, part) => drawLane(context, part, lines[place], lane, y, height, (span, index) => style(span, index, schedule().blocks[place].batch[block])));
  }
  function drawTrace(context, view) {
    drawTimeAxis(context, view, data);
    if (several) drawOverview(context, view);
    const ink = themeColour("flame-ink");
    const fills = [themeColour("flame-a"), themeColour("flame-b")];
    const panel = themeColour("panel");
    lanes().modules.forEach((lane, depth) => {
      drawLanes(context, view, state.ipu, lane, laneTop() + depth * LANE, LANE - 2, (span, index, batch) => (depth === 0
        ? { fill: colourOf(span.label), ink: panel, selected: span === state.span, ...(state.isWhole && batch >= 0 ? { label: `${span.label}, micro-batch ${batch}`, short: `${span.label[0].toUpperCase()} ${batch}` } : {}) }
        : { fill: fills[(index + depth) % 2], ink, selected: span === state.span }));
    });
    const [plain, match, letters] = [themeColour("line-strong"), themeColour("accent"), themeColour("ink")];
    drawLanes(context, view, state.ipu, lanes().ops, opTop(), LANE - 2, (span) => {
      const isMatch = state.matches?.[span.op];
      return { fill: isMatch ? match : plain, alpha: state.matches && !isMatch ? 0.35 : 1, ink: isMatch ? panel : letters, selected: span.op >= 0 && span.op === state.op };
    });
    drawScheduledKinds(context, view, data, schedule(), state.ipu, prepare(state.ipu).sums, kindTop(), KIND_LANE);
    if (state.step >= 0) drawStepFrame(context, view, schedule(), state.ipu, position[state.step], kindTop() - 1, KIND_LANE + 2);
    against?.draw(context, view, state.ipu, kindTop() + KIND_LANE, nameReports(data)[1], state.isWhole);
    if (state.selected) drawRange(context, view, state.selected);
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
      drawLanes(context, view, index, prepare(index).stages, y, overview.stage, (span, place, batch) => ({ fill: colourOf(span.phase), ink: panel, selected: span === state.span, ...(state.isWhole && batch >= 0 ? { label: `${span.label}, micro-batch ${batch}`, short: `${span.short}: ${batch}` } : {}) }));
      drawScheduledKinds(context, view, data, schedule(), index, prepare(index).sums, y + overview.stage + 1, overview.kinds);
    });
    context.fillStyle = themeColour("muted");
    context.textAlign = "left";
    context.fillText(`IPU ${line().ipu}: phase, modules, ops, kinds of step`, view.margins.left, laneTop() - 10);
  }

  function hitSpan(x, y) {
    const time = plot.toValue(x);
    const row = several ? Math.floor((y - plot.margins.top + 3) / overview.row) : lines.length;
    if (x < plot.margins.left) return row >= 0 && row < lines.length ? { ipu: row } : null;
    if (time < 0 || time >= schedule().total || y < plot.margins.top) return null;
    const place = row < lines.length ? row : state.ipu;
    const played = schedule().at(place, time);
    const here = played ? lines[place].at(played.base) : -1;
    const step = played ? lines[place].step[here] : -1;
    const offset = played ? time - played.base : 0;
    const batch = played ? schedule().blocks[place].batch[played.block] : -1;
    if (row < lines.length) {
      const inside = y - plot.margins.top - row * overview.row;
      if (inside > overview.stage || !played) return { ipu: row, step, offset, batch };
      const lane = prepare(row).stages;
      const span = lane[findSpan(lane, here)];
      return { ipu: row, step, offset, batch, span: span && span.from <= here ? span : null };
    }
    if (y >= kindTop() && y < kindTop() + KIND_LANE) return step < 0 ? null : { step, offset, batch };
    const lane = rows()[Math.floor((y - laneTop()) / LANE)];
    if (y < laneTop() || !lane || step < 0) return null;
    const span = lane[findSpan(lane, here)];
    return span && span.from <= here ? { step, span, offset, batch } : null;
  }

  function timeRows(cycles) {
    return [["cycles", formatWhole(cycles)], ["time", formatTime(data.microseconds(cycles))], ["of what is shown here", formatShare(cycles / schedule().total)]];
  }
  function hover(x, y) {
    if (against && y >= kindTop() + KIND_LANE) return against.describe(plot, state.ipu, x, nameReports(data)[1], state.isWhole);
    const hit = hitSpan(x, y);
    if (!hit) return null;
    const { starts, ipu } = lines[hit.ipu ?? state.ipu];
    const batch = state.isWhole && hit.batch >= 0 ? [["micro-batch", formatWhole(hit.batch)]] : [];
    if (hit.span && hit.span.op < 0) return [hit.span.path || hit.span.label, ...batch, ...timeRows(starts[hit.span.to] - starts[hit.span.from])];
    if (hit.span) return [shortenOp(ops.text("op", hit.span.op)), ...timeRows(ops.cycles[hit.span.op]), [ops.text("module", hit.span.op), shortenLine(ops.text("line", hit.span.op))]];
    const { step } = hit;
    if (step === undefined || step < 0) return [`IPU ${ipu}`, [state.isWhole ? "idle" : "other IPUs' turn", "", "idle"]];
    const op = steps.op[step];
    return [`Step ${formatWhole(step)}: ${steps.text("name", step)}`, [steps.text("kind", step), `${formatWhole(steps.cycles[step])} cycles`, steps.text("kind", step)],
      ["time", formatTime(data.microseconds(steps.cycles[step]))], ["tiles", formatWhole(steps.tiles[step])], ["tile balance", formatShare(balanceOf(data, step))], ...batch, ...(several ? [["IPU, stage", `${steps.ipu[step]}, ${steps.stage[step]}`]] : []),
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
    state.balance?.close();
    const shown = makeOpDetails(data, op, step);
    state.balance = shown.balance;
    details.replaceChildren(shown.element);
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
    const start = schedule().find(state.ipu, line().starts[position[ops.first_step[op]]]);
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
    if (schedules.call && (next.call === "whole") !== state.isWhole) showWhole(next.call === "whole");
    if (next.ipu !== undefined && lines[Number(next.ipu)]) changeIpu(Number(next.ipu));
    const op = Number(next.op);
    if (next.op !== undefined && op >= 0 && op < ops.length) {
      if (next.from === undefined) showOp(op);
      else choose(op, -1);
    } else if (next.stage !== undefined) showStage(Number(next.stage), next.phase ?? "forward backward");
    if (next.from !== undefined && next.to !== undefined && Number(next.to) > Number(next.from)) plot.show(Number(next.from), Number(next.to));
    if (next.step !== undefined && steps.kind[Number(next.step)] !== undefined) choose(steps.op[Number(next.step)], Number(next.step));
    if (next.selected !== undefined) select(readRange(next.selected));
  }
  fillLead();
  fillSums();
  apply(parameters);
  if (parameters.find) find(parameters.find);
  return { paint: () => { plot.paint(); state.balance?.paint(); }, close: () => { clearTimeout(state.timer); state.balance?.close(); plot.close(); }, update: apply };
}
