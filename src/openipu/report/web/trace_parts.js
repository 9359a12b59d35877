// What stands around the lanes of a trace: sentences, the axis of time, frames.

// "120000-180000" -> [120000, 180000]; null for anything else.
function readRange(text) {
  const [, from, to] = /^\s*([\d,]+)\s*(?:-|–|to)\s*([\d,]+)\s*$/.exec(text) ?? [];
  return from === undefined ? null : [from, to].map((part) => Number(part.replaceAll(",", "")));
}

function describeMicroBatch(data, total, several, call) {
  const { program, pipeline } = data.summary;
  return `Modelled order and length of every step of one micro-batch${several ? " on its way through the IPUs" : ""}${program.training ? " and one update" : ""}: ` +
    `${formatWhole(total)} cycles, ${formatTime(data.microseconds(total))}.` +
    (pipeline ? " In the gaps of an IPU the pipeline works on other micro-batches: “Whole call” shows them." : call ? " “Whole call” shows how often they run." : "");
}

function describeCall(data, schedule) {
  const { pipeline, timing } = data.summary;
  const cut = schedule.drawn < schedule.rounds ? ` The first ${formatWhole(schedule.drawn)} of ${formatWhole(schedule.rounds)} device iterations are drawn: all are alike.` : "";
  const planned = timing.call_cycles;
  const differs = !cut && Math.abs(planned - schedule.total) > Math.max(1, planned * 1e-6)
    ? ` The plan counts ${formatWhole(planned)} cycles for a call: it lets loads from the host run beside the work, where this trace puts them in a row.` : "";
  return `Modelled order of everything that one call executes${pipeline ? ", tick by tick of the pipeline" : ""}: ` +
    `${formatWhole(schedule.total)} cycles, ${formatTime(data.microseconds(schedule.total))}.${cut}${differs}`;
}

// Heights of the rows of all IPUs: less each where there are many.
function makeOverview(count) {
  const [stage, kinds, gap] = count > 8 ? [11, 5, 5] : [17, 9, 8];
  const row = stage + 1 + kinds + gap;
  return { stage, kinds, row, height: count * row };
}

function drawTimeAxis(context, view, data) {
  const [from, to] = view.range.map((cycles) => data.microseconds(cycles));
  const [unit, name] = chooseTimeUnit(to);
  const step = niceStep((to - from) / unit, view.plotWidth / 110);
  const decimals = Math.max(0, -Math.floor(Math.log10(step)));
  context.fillStyle = themeColour("muted");
  context.strokeStyle = themeColour("line");
  context.beginPath();
  for (let value = Math.ceil(from / unit / step) * step; value <= to / unit; value += step) {
    const x = view.toPixel((value * unit * data.clock) / 1e6);
    context.moveTo(x, 17);
    context.lineTo(x, view.height - view.margins.bottom);
    context.textAlign = x < 30 ? "left" : x > view.width - 40 ? "right" : "center";
    context.fillText(`${decimals ? value.toFixed(decimals) : formatWhole(value)} ${name}`, x, 9);
  }
  context.stroke();
}

// A frame around a step, wherever it is played in view.
function drawStepFrame(context, view, schedule, place, position, y, height) {
  const { starts } = schedule.lines[place];
  context.strokeStyle = themeColour("ink");
  context.lineWidth = 1.5;
  schedule.visit(place, view, (block, part) => {
    const edge = part.width - part.margins.right;
    const [left, right] = [part.toPixel(starts[position]), part.toPixel(starts[position + 1])];
    if (right <= part.margins.left || left >= edge) return;
    const shown = Math.max(part.margins.left, left);
    context.strokeRect(shown, y, Math.max(2, Math.min(right, edge) - shown), height);
  });
  context.lineWidth = 1;
}

// The selected range: what is outside of it stands back.
function drawRange(context, view, [from, to]) {
  const [first, last] = [view.margins.left, view.width - view.margins.right];
  const [left, right] = [from, to].map((cycles) => Math.min(last, Math.max(first, view.toPixel(cycles))));
  const [top, height] = [18, view.height - view.margins.bottom - 18];
  context.fillStyle = themeColour("panel");
  context.globalAlpha = 0.55;
  context.fillRect(first, top, left - first, height);
  context.fillRect(right, top, last - right, height);
  context.globalAlpha = 1;
  context.strokeStyle = themeColour("accent");
  context.lineWidth = 1.5;
  context.strokeRect(left, top, Math.max(1, right - left), height);
  context.lineWidth = 1;
}
