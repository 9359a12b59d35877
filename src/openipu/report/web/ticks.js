// The ticks of a pipeline, and where each of them stands on an axis that may leave out the middle of a long run.

const STEADY_SHOWN = 6; // ticks on either side of what is left out
const TICKS_SHOWN = 40; // fewer are always shown whole

// In tick t, stage p works on micro-batch t - p. An IPU with two stages does both in turn; a tick ends with the slowest.
class Ticks {
  constructor(pipeline) {
    this.stages = pipeline.stages;
    this.batches = pipeline.micro_batches;
    this.count = this.batches + this.stages.length - 1;
    this.fill = pipeline.ticks.fill;
    this.steady = pipeline.ticks.steady;
    this.starts = new Float64Array(this.count + 1);
    for (let tick = 0; tick < this.count; tick++) this.starts[tick + 1] = this.starts[tick] + this.measure(tick);
  }

  get end() {
    return this.starts[this.count];
  }

  isBusy(stage, tick) {
    return tick >= stage.index && tick - stage.index < this.batches;
  }

  measure(tick) {
    const loads = new Map();
    for (const stage of this.stages) if (this.isBusy(stage, tick)) loads.set(stage.ipu, (loads.get(stage.ipu) ?? 0) + stage.cycles);
    return Math.max(0, ...loads.values());
  }

  // What runs in a tick: {stage, batch, tick, from, to} in cycles.
  blocks(tick) {
    const now = new Map();
    return this.stages.filter((stage) => this.isBusy(stage, tick)).map((stage) => {
      const from = now.get(stage.ipu) ?? this.starts[tick];
      now.set(stage.ipu, from + stage.cycles);
      return { stage, batch: tick - stage.index, tick, from, to: from + stage.cycles };
    });
  }

  blockOf(stage, batch) {
    return this.blocks(batch + stage.index).find((block) => block.stage === stage);
  }

  at(cycles) {
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= cycles) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

// Cycles -> places on the axis, which are cycles too but without those of the ticks from `cutFrom` to `cutTo`.
class TickAxis {
  constructor(ticks, end, whole) {
    this.ticks = ticks;
    this.cutFrom = this.cutTo = ticks.count;
    const first = ticks.fill + STEADY_SHOWN;
    const last = ticks.fill + ticks.steady - STEADY_SHOWN;
    if (!whole && ticks.count > TICKS_SHOWN && last - first > 4) [this.cutFrom, this.cutTo] = [first, last];
    [this.cutStart, this.cutEnd] = [ticks.starts[this.cutFrom], ticks.starts[this.cutTo]];
    this.gap = this.isCut ? (end - this.cutEnd + this.cutStart) * 0.06 : 0;
    this.shift = this.cutEnd - this.cutStart - this.gap;
    this.length = end - this.shift;
  }

  get isCut() {
    return this.cutTo > this.cutFrom;
  }

  toPlace(cycles) {
    return this.isCut && cycles >= this.cutEnd ? cycles - this.shift : cycles;
  }

  // Null inside the cut.
  toCycles(place) {
    if (!this.isCut || place <= this.cutStart) return place;
    return place < this.cutStart + this.gap ? null : place + this.shift;
  }

  hides(tick) {
    return tick >= this.cutFrom && tick < this.cutTo;
  }

  // Round values with their places, in a unit of so many cycles.
  listMarks([from, to], cyclesPerUnit, count) {
    const step = niceStep((to - from) / cyclesPerUnit, count);
    const marks = [];
    for (const [low, high] of [[from, Math.min(to, this.isCut ? this.cutStart : to)], [Math.max(from, this.cutStart + this.gap), to]]) {
      if (high <= low || (low !== from && !this.isCut)) continue;
      const [first, last] = [this.toCycles(low) ?? this.cutEnd, this.toCycles(high) ?? this.cutStart].map((cycles) => cycles / cyclesPerUnit);
      for (let value = Math.ceil(first / step - 1e-9) * step; value <= last + 1e-9; value += step) marks.push([value, this.toPlace(value * cyclesPerUnit)]);
    }
    return { marks, decimals: Math.max(0, -Math.floor(Math.log10(step))) };
  }
}
