// View 4: the bulk-synchronous phases over time, with the modules and ops that they belong to.

const LANE = 21;
const KIND_LANE = 46;

function showTrace(data, root, parameters) {
  const { starts, ops, steps } = data;
  const total = starts[steps.length];
  root.append(make("h1", { text: "Execution trace" }),
    make("p", { class: "lead", text: `Modelled order and length of every step of one micro-batch${data.summary.program.training ? " and one update" : ""}: ` +
      `${formatWhole(total)} cycles, ${formatTime(data.microseconds(total))}.` }));
  if (!total) {
    root.append(make("p", { text: "The program has no steps that take time." }));
    return {};
  }
  const lanes = buildLanes(data);
  const sums = buildKindSums(data);
  const state = { op: -1, step: -1, span: null, matches: null, next: 0 };
  const rows = [...lanes.modules, lanes.ops];
  const opTop = () => plot.margins.top + lanes.modules.length * LANE;
  const kindTop = () => opTop() + LANE + 8;

  const plot = new Plot({
    label: "Steps over time in lanes: phase, modules, ops, kinds of step. Plus and minus zoom, arrow keys pan, 0 shows everything.",
    role: "application",
    height: () => 26 + rows.length * LANE + 8 + KIND_LANE + 8 + 30,
    margins: { left: 8, right: 8, top: 26, bottom: 30 },
    from: 0, to: total, minimumSpan: Math.max(total / 5e6, 40), wheel: true,
    draw: drawTrace, hover, pick,
    onRange: ([from, to]) => {
      clearTimeout(state.timer);
      state.timer = setTimeout(() => address.note(to - from < total * 0.999 ? { from: Math.round(from), to: Math.round(to) } : { from: null, to: null }), 150);
    },
  });
  const search = make("input", { type: "search", id: "search", placeholder: "Op, module or line", "aria-label": "Search ops", value: parameters.find ?? "",
    oninput: () => find(search.value), onkeydown: (event) => event.key === "Enter" && jump() });
  const found = make("span", { class: "hint", role: "status", id: "found" });
  const details = make("div", { id: "op-details" });
  root.append(
    make("section", { class: "panel", "aria-label": "Trace" },
      make("div", { class: "controls" }, search, make("button", { type: "button", text: "Next match", onclick: jump }), found, make("span", { class: "push" }), plot.tools),
      make("ul", { class: "legend", "aria-label": "Kinds of step" }, ...sums.kinds.map((kind, index) =>
        make("li", {}, makeSwatch(kind), make("span", { class: "name", text: `${kind} ` }), make("b", { text: formatShare(sums.sums[index][steps.length] / total) }))), make("li", {}, make("span", { class: "name", text: "of this trace" }))),
      plot.element,
      make("p", { class: "hint", text: "Wheel or pinch zooms, drag pans. Lanes from above: phase, modules, ops, kinds of step. Click for details; double-click a module or op to zoom to it." })),
    details,
  );
  plot.canvas.addEventListener("dblclick", (event) => {
    const box = plot.canvas.getBoundingClientRect();
    const hit = hitSpan(event.clientX - box.left, event.clientY - box.top);
    if (hit?.span) showSpan(hit.span);
  });

  function showSpan(span) {
    const room = (starts[span.to] - starts[span.from]) * 0.05;
    plot.show(starts[span.from] - room, starts[span.to] + room);
  }

  function drawTrace(context, view) {
    drawTimeAxis(context, view);
    const ink = themeColour("flame-ink");
    const fills = [themeColour("flame-a"), themeColour("flame-b")];
    const panel = themeColour("panel");
    lanes.modules.forEach((lane, depth) => {
      const y = view.margins.top + depth * LANE;
      drawLane(context, view, data, lane, y, LANE - 2, (span, index) =>
        depth === 0 ? { fill: colourOf(span.label), ink: panel, selected: span === state.span } : { fill: fills[(index + depth) % 2], ink, selected: span === state.span });
    });
    const [plain, match] = [themeColour("line-strong"), themeColour("accent")];
    drawLane(context, view, data, lanes.ops, opTop(), LANE - 2, (span) => {
      const isMatch = state.matches?.[span.op];
      return { fill: isMatch ? match : plain, alpha: state.matches && !isMatch ? 0.35 : 1, ink: isMatch ? panel : themeColour("ink"), selected: span.op >= 0 && span.op === state.op };
    });
    drawKinds(context, view, data, sums, kindTop(), KIND_LANE);
    if (state.step >= 0) {
      const left = view.toPixel(starts[state.step]);
      const right = view.toPixel(starts[state.step + 1]);
      context.strokeStyle = themeColour("ink");
      context.lineWidth = 1.5;
      if (right > view.margins.left && left < view.width - view.margins.right) context.strokeRect(Math.max(view.margins.left, left), kindTop() - 1, Math.max(2, Math.min(right, view.width - view.margins.right) - Math.max(view.margins.left, left)), KIND_LANE + 2);
      context.lineWidth = 1;
    }
    view.drawBottomAxis(context, (cycles) => `${formatWhole(cycles)} cycles`);
  }

  function drawTimeAxis(context, view) {
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

  function hitSpan(x, y) {
    const time = plot.toValue(x);
    if (time < 0 || time >= total || x < plot.margins.left) return null;
    const step = findStep(starts, time);
    if (y >= kindTop() && y < kindTop() + KIND_LANE) return { step };
    const lane = rows[Math.floor((y - plot.margins.top) / LANE)];
    if (y < plot.margins.top || !lane) return null;
    const span = lane[findSpan(lane, step)];
    return span && span.from <= step ? { step, span } : null;
  }

  function timeRows(cycles) {
    return [["cycles", formatWhole(cycles)], ["time", formatTime(data.microseconds(cycles))], ["of what is shown here", formatShare(cycles / total)]];
  }
  function hover(x, y) {
    const hit = hitSpan(x, y);
    if (!hit) return null;
    if (hit.span && hit.span.op < 0) return [hit.span.path || hit.span.label, ...timeRows(starts[hit.span.to] - starts[hit.span.from])];
    if (hit.span) return [shortenOp(ops.text("op", hit.span.op)), ...timeRows(ops.cycles[hit.span.op]), [ops.text("module", hit.span.op), shortenLine(ops.text("line", hit.span.op))]];
    const { step } = hit;
    const op = steps.op[step];
    return [`Step ${formatWhole(step)}: ${steps.text("name", step)}`, [steps.text("kind", step), `${formatWhole(steps.cycles[step])} cycles`, steps.text("kind", step)],
      ["time", formatTime(data.microseconds(steps.cycles[step]))], ["tiles", formatWhole(steps.tiles[step])],
      ...(steps.moved_bytes[step] ? [["moved", formatBytes(steps.moved_bytes[step])]] : []), ...(op >= 0 ? [[shortenOp(ops.text("op", op)), ops.text("module", op)]] : [])];
  }
  function pick(x, y) {
    const hit = hitSpan(x, y);
    if (!hit) return;
    if (hit.span && hit.span.op < 0) chooseSpan(hit.span);
    else choose(steps.op[hit.step], hit.span ? -1 : hit.step);
  }

  function chooseSpan(span) {
    Object.assign(state, { span, op: -1, step: -1 });
    const inside = new Set();
    for (let step = span.from; step < span.to; step++) if (steps.op[step] >= 0) inside.add(steps.op[step]);
    const facts = makeFacts(span.label, [
      ["Path", span.path || span.label],
      ["Cycles", formatWhole(starts[span.to] - starts[span.from])],
      ["Time", formatTime(data.microseconds(starts[span.to] - starts[span.from]))],
      ["Steps", `${formatWhole(span.from)} to ${formatWhole(span.to - 1)}`],
      ["Ops", formatWhole(inside.size)],
    ]);
    details.replaceChildren(makePanel(span.label, facts));
    announce(`${span.label} chosen`);
    plot.paint();
  }
  function choose(op, step) {
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
      found.textContent = `${formatWhole(state.order.length)} ops, ${formatShare(cycles / total)} of the cycles here`;
    }
    plot.paint();
  }
  function jump() {
    if (!state.order?.length) return;
    const op = state.order[state.next++ % state.order.length];
    const span = lanes.ops[findSpan(lanes.ops, ops.first_step[op])];
    choose(op, -1);
    const width = Math.max((starts[span.to] - starts[span.from]) * 12, total / 400);
    const middle = (starts[span.from] + starts[span.to]) / 2;
    plot.show(middle - width / 2, middle + width / 2);
  }

  function apply(next) {
    if (next.from !== undefined && next.to !== undefined && Number(next.to) > Number(next.from)) plot.show(Number(next.from), Number(next.to));
    const op = Number(next.op);
    if (next.op !== undefined && op >= 0 && op < ops.length) {
      choose(op, -1);
      if (next.from === undefined) {
        const middle = (starts[ops.first_step[op]] + starts[ops.first_step[op] + ops.step_count[op]]) / 2;
        const width = Math.max(ops.cycles[op] * 12, total / 400);
        plot.show(middle - width / 2, middle + width / 2);
      }
    }
  }
  apply(parameters);
  if (parameters.find) find(parameters.find);
  return { paint: () => plot.paint(), close: () => { clearTimeout(state.timer); plot.close(); }, update: apply };
}

// Ops whose name, kind, module or line contains the text.
function findOps(data, text) {
  const wanted = text.trim().toLowerCase();
  const hits = new Set();
  data.ops.strings.forEach((string, number) => string.toLowerCase().includes(wanted) && hits.add(number));
  const found = [];
  for (let op = 0; op < data.ops.length; op++) {
    if (["name", "op", "family", "module", "line", "phase", "provenance"].some((column) => hits.has(data.ops[column][op]))) found.push(op);
  }
  return found;
}

function makeOpDetails(data, op, step) {
  const { ops, steps } = data;
  const stepFacts = step < 0 ? null : makePanel(`Step ${formatWhole(step)}`, makeFacts(`Step ${step}`, [
    ["Kind", `${steps.text("kind", step)}: ${steps.text("name", step)}`],
    ["Cycles", `${formatWhole(steps.cycles[step])} (${formatMicroseconds(data.microseconds(steps.cycles[step]))})`],
    ["Repeats", steps.repeats[step] > 1 ? formatWhole(steps.repeats[step]) : null],
    ["Tiles", formatWhole(steps.tiles[step])],
    ["IPU", data.memory.length > 1 ? formatWhole(steps.ipu[step]) : null],
    ["Moved", steps.moved_bytes[step] ? formatBytes(steps.moved_bytes[step]) : null],
    ["FLOPs", steps.flops[step] ? formatWhole(steps.flops[step]) : null],
    ["Live bytes", make("a", { href: address.link({ view: "liveness", step }), text: "at this step" })],
  ]));
  if (op < 0) return make("div", {}, stepFacts);
  const cycles = ops.cycles[op];
  const plan = ops.text("plan", op) ? JSON.parse(ops.text("plan", op)) : {};
  const facts = makeFacts("Op", [
    ["Op", ops.text("op", op)],
    ["Node", ops.text("name", op)],
    ["IPU, stage", data.memory.length > 1 ? `${ops.ipu[op]}, ${ops.stage[op]}` : null],
    ["Module", ops.text("module", op) ? makePath(ops.text("module", op)) : null],
    ["Line", ops.text("line", op)],
    ["Family, phase", `${ops.text("family", op)}, ${ops.text("phase", op)}`],
    ["Cycles (modelled)", formatWhole(cycles)],
    ["Time (modelled)", formatMicroseconds(data.microseconds(cycles))],
    ["Of a call", formatShare(data.callCycles(op) / data.summary.timing.call_cycles)],
    ["FLOPs", ops.flops[op] ? `${formatWhole(ops.flops[op])} (${formatRate((ops.flops[op] / cycles) * data.clock)})` : null],
    ["Of peak", ops.share_of_peak[op] >= 0 ? formatShare(ops.share_of_peak[op]) : null],
    ["Moved", ops.moved_bytes[op] ? formatBytes(ops.moved_bytes[op]) : null],
    ["Scratch on a tile", ops.scratch_bytes_per_tile[op] ? formatBytes(ops.scratch_bytes_per_tile[op]) : null],
    ["Steps", ops.step_count[op] ? `${formatWhole(ops.first_step[op])} to ${formatWhole(ops.first_step[op] + ops.step_count[op] - 1)}` : "none: free"],
    ...Object.entries(plan).map(([name, value]) => [`Plan: ${name.replaceAll("_", " ")}`, typeof value === "object" ? JSON.stringify(value) : String(value)]),
    ["Figures are", `${ops.text("provenance", op)}${ops.text("basis", op) ? `: ${ops.text("basis", op)}` : ""}`],
  ]);
  facts.id = "op-facts";
  return make("div", { class: "grid" }, makePanel(shortenOp(ops.text("op", op)), facts), stepFacts);
}
