// Spans of the execution trace: phases and modules as nested lanes, ops, and kinds of step as running sums.

// A lane holds spans in order of time, each a run of steps with the same label: {from, to} are step numbers.
function buildLanes(data) {
  const { steps, ops } = data;
  const paths = new Map();
  const pathOf = (step) => {
    const op = steps.op[step];
    const key = op >= 0 ? op : -1 - steps.phase[step];
    if (!paths.has(key)) {
      const module = op >= 0 ? ops.text("module", op) : "";
      // "layer.0" stays together: an index says nothing without its name.
      paths.set(key, [steps.text("phase", step), ...(module ? module.split(/\.(?=[^\d])/) : [])]);
    }
    return paths.get(key);
  };
  const lanes = [];
  let open = [];
  for (let step = 0; step < steps.length; step++) {
    const path = pathOf(step);
    let common = 0;
    while (common < open.length && common < path.length && open[common].label === path[common]) common++;
    open.length = common;
    for (let depth = common; depth < path.length; depth++) {
      lanes[depth] ??= [];
      const span = { label: path[depth], path: path.slice(0, depth + 1).join(" › "), from: step, to: step, op: -1 };
      lanes[depth].push(span);
      open.push(span);
    }
    for (const span of open) span.to = step + 1;
  }
  const opLane = [];
  for (let step = 0; step < steps.length; step++) {
    const last = opLane.at(-1);
    if (last && last.op === steps.op[step] && last.op >= 0) last.to = step + 1;
    else {
      const op = steps.op[step];
      opLane.push({ label: op >= 0 ? shortenOp(ops.text("op", op)) : steps.text("name", step), path: "", from: step, to: step + 1, op });
    }
  }
  return { modules: lanes, ops: opLane };
}

// For each kind of step, cycles spent in it before each step: what a pixel holds is the difference at its two edges.
function buildKindSums(data) {
  const { steps } = data;
  const kinds = ["compute", "exchange", "sync", "host", "link"].filter((kind) => {
    const number = steps.strings.indexOf(kind);
    return number >= 0 && steps.kind.includes(number);
  });
  const sums = kinds.map(() => new Float64Array(steps.length + 1));
  const place = new Map(kinds.map((kind, index) => [kind, index]));
  for (let step = 0; step < steps.length; step++) {
    const own = place.get(steps.text("kind", step));
    for (let index = 0; index < kinds.length; index++) sums[index][step + 1] = sums[index][step] + (index === own ? steps.cycles[step] : 0);
  }
  return { kinds, sums };
}

// The step that runs at a time; `starts` has one entry more than there are steps.
function findStep(starts, time) {
  let low = 0;
  let high = starts.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

// The first span of a lane that ends after a step.
function findSpan(lane, step) {
  let low = 0;
  let high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane[middle].to > step) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Draws one lane in O(pixels): spans too narrow to see are skipped a pixel at a time.
function drawLane(context, plot, data, lane, y, height, style) {
  const { starts } = data;
  const [from, to] = plot.range;
  const left = plot.margins.left;
  const right = plot.width - plot.margins.right;
  let index = findSpan(lane, findStep(starts, from));
  while (index < lane.length && starts[lane[index].from] < to) {
    const span = lane[index];
    const x = Math.max(left, plot.toPixel(starts[span.from]));
    const end = Math.min(right, plot.toPixel(starts[span.to]));
    const look = style(span, index);
    context.globalAlpha = look.alpha ?? 1;
    context.fillStyle = look.fill;
    if (end - x < 1) {
      context.fillRect(x, y, 1, height);
      const next = findSpan(lane, findStep(starts, plot.toValue(x + 1)));
      index = Math.max(index + 1, next);
      continue;
    }
    context.fillRect(x, y, Math.max(0.6, end - x - (end - x > 3 ? 1 : 0)), height);
    if (look.selected) {
      context.strokeStyle = themeColour("accent");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, end - x - 3), height - 2);
      context.lineWidth = 1;
    }
    if (end - x > 26) drawClipped(context, span.label, x + 5, y + height / 2 + 0.5, end - x - 12, look.ink);
    index++;
  }
  context.globalAlpha = 1;
}

function drawClipped(context, text, x, y, room, ink) {
  let shown = text;
  if (context.measureText(shown).width > room) {
    const letters = Math.floor((text.length * room) / context.measureText(text).width) - 1;
    if (letters < 2) return;
    shown = `${text.slice(0, letters)}…`;
  }
  context.fillStyle = ink;
  context.textAlign = "left";
  context.fillText(shown, x, y);
}

// The lane of BSP phases. Where there are more steps than pixels, a pixel shows the proportions of its steps, stacked.
function drawKinds(context, plot, data, { kinds, sums }, y, height) {
  const { starts, steps } = data;
  const colours = kinds.map(colourOf);
  const [first, last] = plot.range.map((time) => findStep(starts, time));
  if (last - first < plot.plotWidth) {
    const right = plot.width - plot.margins.right;
    for (let step = first; step <= last; step++) {
      const x = Math.max(plot.margins.left, plot.toPixel(starts[step]));
      const end = Math.min(right, plot.toPixel(starts[step + 1]));
      context.fillStyle = colours[kinds.indexOf(steps.text("kind", step))];
      if (end > x) context.fillRect(x, y, end - x, height);
    }
    return;
  }
  const spent = (index, step, time) => {
    const inside = sums[index][step + 1] > sums[index][step] ? Math.max(0, time - starts[step]) : 0;
    return sums[index][step] + inside;
  };
  const count = Math.ceil(plot.plotWidth);
  let step = findStep(starts, plot.range[0]);
  let time = Math.max(plot.range[0], 0);
  for (let pixel = 0; pixel < count; pixel++) {
    const x = plot.margins.left + pixel;
    const nextTime = Math.min(plot.toValue(x + 1), starts[steps.length]);
    const nextStep = findStep(starts, nextTime);
    const whole = nextTime - time;
    if (whole > 0) {
      let top = y;
      kinds.forEach((kind, index) => {
        const part = ((spent(index, nextStep, nextTime) - spent(index, step, time)) / whole) * height;
        if (part <= 0) return;
        context.fillStyle = colours[index];
        context.fillRect(x, top, 1.3, part + 0.2);
        top += part;
      });
    }
    step = nextStep;
    time = nextTime;
  }
}
