// When each part of the timelines runs: once for one micro-batch and one update, or as often as a whole call runs it.

const MOST_BLOCKS = 40000; // device iterations beyond that are alike, and are not drawn

// Blocks of each IPU in order of time. From cycle `start` on, a block plays `length` cycles of the IPU's timeline from
// `base` on; `batch` and `round` say for which micro-batch of the call
// and device iteration, or are -1.
class Schedule {
  constructor(lines) {
    Object.assign(this, { lines, total: 0, drawn: 1, rounds: 1, count: 0, blocks: lines.map(() => ({ start: [], base: [], length: [], batch: [], round: [] })) });
  }

  add(line, start, base, length, batch = -1, round = -1) {
    const own = this.blocks[line];
    own.start.push(start);
    own.base.push(base);
    own.length.push(length);
    own.batch.push(batch);
    own.round.push(round);
    this.count += 1;
  }

  // The first block that ends after a time.
  after(line, time) {
    const { start, length } = this.blocks[line];
    let [low, high] = [0, start.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[middle] + length[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // What runs at a time: the block and the cycle of the timeline, or null where the IPU idles.
  at(line, time) {
    const own = this.blocks[line];
    const block = this.after(line, time);
    if (block >= own.start.length || own.start[block] > time) return null;
    return { block, base: own.base[block] + time - own.start[block] };
  }

  // When a cycle of the timeline is played for the first time.
  find(line, base) {
    const own = this.blocks[line];
    const block = own.base.findIndex((from, place) => from <= base && base < from + own.length[place]);
    return block < 0 ? base : own.start[block] + base - own.base[block];
  }

  // Visits the blocks in view, of those within one pixel the first: visit(block, the part of the view that it fills).
  visit(line, view, act) {
    const own = this.blocks[line];
    let block = this.after(line, view.range[0]);
    while (block < own.start.length && own.start[block] < view.range[1]) {
      const [from, to] = [own.start[block], own.start[block] + own.length[block]];
      act(block, partOfView(view, from, to, from - own.base[block]));
      block = view.toPixel(to) - view.toPixel(from) < 1 ? Math.max(block + 1, this.after(line, view.toValue(view.toPixel(from) + 1))) : block + 1;
    }
  }

  countSeen(line, [from, to]) {
    return Math.max(0, this.after(line, to) - this.after(line, from));
  }

  // Cycles by kind and op between two times: whole blocks of one part are measured once and counted.
  measure(data, line, from, to) {
    const own = this.blocks[line];
    const found = { kinds: new Map(), ops: new Map(), steps: 0, busy: 0, working: 0, length: to - from };
    const wholes = new Map();
    for (let block = this.after(line, from); block < own.start.length && own.start[block] < to; block++) {
      const shift = own.base[block] - own.start[block];
      const [low, high] = [Math.max(from, own.start[block]), Math.min(to, own.start[block] + own.length[block])];
      if (high - low < own.length[block]) addSums(found, measureRange(data, this.lines[line], low + shift, high + shift), 1);
      else {
        const key = `${own.base[block]} ${own.length[block]}`;
        const known = wholes.get(key) ?? { base: own.base[block], length: own.length[block], times: 0 };
        known.times += 1;
        wholes.set(key, known);
      }
    }
    for (const { base, length, times } of wholes.values()) addSums(found, measureRange(data, this.lines[line], base, base + length), times);
    return { ...found, ops: [...found.ops.values()] };
  }
}

function addSums(found, more, times) {
  for (const name of ["steps", "busy", "working"]) found[name] += more[name] * times;
  for (const [kind, cycles] of more.kinds) found.kinds.set(kind, (found.kinds.get(kind) ?? 0) + cycles * times);
  for (const row of more.ops) {
    const known = found.ops.get(row.op) ?? { op: row.op, first: row.first, cycles: 0, steps: 0, working: 0 };
    for (const name of ["cycles", "steps", "working"]) known[name] += row[name] * times;
    found.ops.set(row.op, known);
  }
}

// A view in which a cycle stands where the cycle that is `offset` later stands in the whole view; drawn between two times.
function partOfView(view, from, to, offset) {
  const left = Math.max(view.margins.left, view.toPixel(from));
  const right = Math.min(view.width - view.margins.right, view.toPixel(to));
  return {
    width: view.width, margins: { ...view.margins, left, right: view.width - right }, plotWidth: Math.max(0, right - left),
    range: [Math.max(view.range[0], from) - offset, Math.min(view.range[1], to) - offset],
    toPixel: (cycle) => view.toPixel(cycle + offset), toValue: (pixel) => view.toValue(pixel) - offset, snap: view.snap,
  };
}

// The same view for cycles that each last `scale` of its own: those of another clock.
const stretchView = (view, scale) => ({
  width: view.width, margins: view.margins, plotWidth: view.plotWidth, range: view.range.map((cycle) => cycle / scale),
  toPixel: (cycle) => view.toPixel(cycle * scale), toValue: (pixel) => view.toValue(pixel) / scale, snap: view.snap,
});

// One micro-batch and one update: every timeline once, from its begin.
function scheduleOnce(lines, total) {
  const schedule = new Schedule(lines);
  lines.forEach((line, place) => schedule.add(place, 0, 0, total));
  return Object.assign(schedule, { total });
}

// One call, or null where that is the same as one micro-batch and one update.
function scheduleCall(data, lines) {
  const { pipeline, options, program } = data.summary;
  const iterations = options.device_iterations ?? 1;
  const accumulation = (data.executions.forward ?? iterations) / iterations;
  if (data.tree.length || (!pipeline && iterations * accumulation < 2)) return null;
  const parts = listParts(data, lines, Boolean(pipeline));
  const schedule = new Schedule(lines);
  let now = 0;
  const play = (part, batch, round) => {
    if (!part) return;
    for (const { line, from, to } of part.runs) schedule.add(line, now + from - part.from, from, to - from, batch, round);
    now += part.to - part.from;
  };
  const ticks = pipeline ? new Ticks(pipeline) : null;
  const playTicks = (round) => {
    for (let tick = 0; tick < ticks.count; tick++) {
      for (const { stage, batch, from } of ticks.blocks(tick)) {
        const part = parts.get(stage.index);
        for (const run of part?.runs ?? []) schedule.add(run.line, now + from - ticks.starts[tick] + run.from - part.from, run.from, run.to - run.from, batch + round * ticks.batches, round);
      }
      now += ticks.starts[tick + 1] - ticks.starts[tick];
      if (options.continuous && tick >= ticks.stages.length - 1) play(parts.get("update"), tick - ticks.stages.length + 1, round); // a micro-batch is done
    }
  };
  play(parts.get("before"));
  // Without training the micro-batches of all iterations follow one another through the pipeline.
  schedule.rounds = pipeline && (!program.training || options.continuous) ? 1 : iterations;
  for (schedule.drawn = 0; schedule.drawn < schedule.rounds && schedule.count < MOST_BLOCKS; schedule.drawn++) {
    if (ticks) playTicks(schedule.drawn);
    else for (let batch = 0; batch < accumulation; batch++) play(parts.get("micro"), batch + schedule.drawn * accumulation, schedule.drawn);
    if (!options.continuous) play(parts.get("update"), -1, schedule.drawn);
  }
  play(parts.get("after"));
  return Object.assign(schedule, { total: now });
}

// Parts of the timelines by name, or by the stage's turn: {from, to, runs}; a run is what one IPU does of it without a pause.
function listParts(data, lines, byStage) {
  const { steps } = data;
  const turns = byStage ? new Map(orderByTurn(steps)) : null;
  let isBegun = false;
  const nameOf = (step) => {
    if (steps.per_call[step]) return isBegun ? "after" : "before";
    if (steps.text("phase", step) === "update") return "update";
    isBegun = true;
    return byStage ? turns.get(step) : "micro";
  };
  const parts = new Map();
  lines.forEach((line, place) => {
    let last = null;
    for (let position = 0; position < line.length; position++) {
      if (line.step[position] < 0) {
        last = null;
        continue;
      }
      const name = nameOf(line.step[position]);
      const [from, to] = [line.starts[position], line.starts[position] + steps.cycles[line.step[position]]];
      if (last?.name === name) last.to = to;
      else {
        if (!parts.has(name)) parts.set(name, { from: Infinity, to: 0, runs: [] });
        last = { name, line: place, from, to };
        parts.get(name).runs.push(last);
      }
      const part = parts.get(name);
      [part.from, part.to] = [Math.min(part.from, from), Math.max(part.to, to)];
    }
  });
  return parts;
}
