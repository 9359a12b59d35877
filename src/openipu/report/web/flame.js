// Spans of the execution trace: phases and modules as nested lanes, ops, and kinds of step as running sums.

// A lane holds spans in order of time, each a run of steps with the same label: {from, to} are positions of a timeline.
function buildLanes(data, line) {
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
  for (let position = 0; position < line.length; position++) {
    const step = line.step[position];
    if (step < 0) {
      open = [];
      continue;
    }
    const path = pathOf(step);
    let common = 0;
    while (common < open.length && common < path.length && open[common].label === path[common]) common++;
    open.length = common;
    for (let depth = common; depth < path.length; depth++) {
      lanes[depth] ??= [];
      const span = { label: path[depth], path: path.slice(0, depth + 1).join(" › "), from: position, to: position, op: -1 };
      lanes[depth].push(span);
      open.push(span);
    }
    for (const span of open) span.to = position + 1;
  }
  const opLane = [];
  for (let position = 0; position < line.length; position++) {
    const step = line.step[position];
    if (step < 0) continue;
    const op = steps.op[step];
    const last = opLane.at(-1);
    if (last && last.to === position && last.op === op && op >= 0) last.to = position + 1;
    else opLane.push({ label: op >= 0 ? shortenOp(ops.text("op", op)) : steps.text("name", step), path: "", from: position, to: position + 1, op });
  }
  return { modules: lanes, ops: opLane };
}

// For each kind of step, cycles spent in it before each position: what a pixel holds is the difference at its two edges.
function buildKindSums(data, line) {
  const { steps } = data;
  const kinds = ["compute", "exchange", "sync", "host", "link"].filter((kind) => {
    const number = steps.strings.indexOf(kind);
    return number >= 0 && steps.kind.includes(number);
  });
  const sums = kinds.map(() => new Float64Array(line.length + 1));
  const place = new Map(kinds.map((kind, index) => [kind, index]));
  for (let position = 0; position < line.length; position++) {
    const step = line.step[position];
    const own = step < 0 ? -1 : place.get(steps.text("kind", step));
    for (let index = 0; index < kinds.length; index++) sums[index][position + 1] = sums[index][position] + (index === own ? steps.cycles[step] : 0);
  }
  return { kinds, sums };
}

// The first span of a lane that ends after a position.
function findSpan(lane, position) {
  let low = 0;
  let high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane[middle].to > position) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Draws one lane in O(pixels): spans too narrow to see are skipped a pixel at a time.
function drawLane(context, plot, line, lane, y, height, style) {
  const { starts } = line;
  const [from, to] = plot.range;
  const left = plot.margins.left;
  const right = plot.width - plot.margins.right;
  let index = findSpan(lane, line.at(from));
  while (index < lane.length && starts[lane[index].from] < to) {
    const span = lane[index];
    const x = Math.max(left, plot.toPixel(starts[span.from]));
    const end = Math.min(right, plot.toPixel(starts[span.to]));
    const look = style(span, index);
    context.globalAlpha = look.alpha ?? 1;
    context.fillStyle = look.fill;
    if (end - x < 1) {
      context.fillRect(x, y, 1, height);
      const next = findSpan(lane, line.at(plot.toValue(x + 1)));
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
    if (height < 14) {
      index++; // too low for letters
      continue;
    }
    const label = look.label ?? span.label;
    const short = look.short ?? span.short;
    const isShort = short && context.measureText(label).width > end - x - 12;
    if (isShort && end - x > 9) drawClipped(context, short, x + 2, y + height / 2 + 0.5, end - x - 3, look.ink);
    else if (!isShort && end - x > 26) drawClipped(context, label, x + 5, y + height / 2 + 0.5, end - x - 12, look.ink);
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
function drawKinds(context, plot, data, line, { kinds, sums }, y, height) {
  const { steps } = data;
  const { starts } = line;
  const [first, last] = plot.range.map((time) => line.at(time));
  if (last - first >= plot.plotWidth) {
    drawProportions(context, plot, kinds, (time) => spentBefore(line, sums, time), y, height, starts[line.length]);
    return;
  }
  const colours = kinds.map(colourOf);
  const right = plot.width - plot.margins.right;
  for (let position = first; position <= last; position++) {
    if (line.step[position] < 0) continue;
    const x = plot.snap(Math.max(plot.margins.left, plot.toPixel(starts[position])));
    const end = plot.snap(Math.min(right, plot.toPixel(starts[position + 1])));
    context.fillStyle = colours[kinds.indexOf(steps.text("kind", line.step[position]))];
    if (end > x) context.fillRect(x, y, end - x, height);
  }
}

// Cycles of each kind before a time of a timeline.
function spentBefore(line, sums, time) {
  const position = line.at(time);
  const inside = Math.max(0, time - line.starts[position]);
  return sums.map((own) => own[position] + (own[position + 1] > own[position] ? inside : 0));
}

// Pixel by pixel: spent(time) has the cycles of each kind before a time, up to `last`.
function drawProportions(context, plot, kinds, spent, y, height, last) {
  const colours = kinds.map(colourOf);
  const count = Math.ceil(plot.plotWidth);
  let time = Math.max(plot.range[0], 0);
  let before = spent(time);
  for (let pixel = 0; pixel < count; pixel++) {
    const [x, end] = [pixel, pixel + 1].map((place) => plot.snap(plot.margins.left + place));
    const next = Math.min(plot.toValue(plot.margins.left + pixel + 1), last);
    if (next <= time) continue;
    const now = spent(next);
    let top = y;
    kinds.forEach((kind, index) => {
      const part = ((now[index] - before[index]) / (next - time)) * height;
      if (part <= 0) return;
      context.fillStyle = colours[index];
      context.fillRect(x, top, end - x, part);
      top += part;
    });
    before = now;
    time = next;
  }
}

// The kinds of step of one IPU as a schedule plays them: block by block, or as proportions where there are too many.
function drawScheduledKinds(context, view, data, schedule, place, sums, y, height) {
  const line = schedule.lines[place];
  if (schedule.countSeen(place, view.range) <= view.plotWidth / 3) {
    schedule.visit(place, view, (block, part) => drawKinds(context, part, data, line, sums, y, height));
    return;
  }
  const own = schedule.blocks[place];
  // Of each kind, the cycles before each block.
  sums.before ??= own.start.reduce((found, _, block) => {
    const [low, high] = [own.base[block], own.base[block] + own.length[block]].map((time) => spentBefore(line, sums.sums, time));
    found.push(found.at(-1).map((cycles, index) => cycles + high[index] - low[index]));
    return found;
  }, [sums.kinds.map(() => 0)]);
  const spent = (time) => {
    const block = schedule.after(place, time);
    if (block >= own.start.length || own.start[block] >= time) return sums.before[block];
    const [low, high] = [own.base[block], own.base[block] + time - own.start[block]].map((cycle) => spentBefore(line, sums.sums, cycle));
    return sums.before[block].map((cycles, index) => cycles + high[index] - low[index]);
  };
  drawProportions(context, view, sums.kinds, spent, y, height, schedule.total);
}
