// When each step runs on each IPU, for one micro-batch on its way through the stages and one update.

// The steps of one IPU in order of time. `step` has the number of a step at each position, or -1 where the IPU idles;
// `starts` has the cycle at which each position begins, and at last the end.
class Timeline {
  constructor(ipu, step, starts) {
    Object.assign(this, { ipu, step, starts, length: step.length });
  }

  // The position at a time.
  at(time) {
    let low = 0;
    let high = this.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

// One timeline an IPU, all on one clock; `position` has the place of each step in the timeline of its IPU.
function buildTimelines(data) {
  const { steps, memory } = data;
  const position = new Int32Array(steps.length);
  if (memory.length < 2) {
    const order = Int32Array.from(position, (_, step) => step);
    return { lines: [new Timeline(memory[0]?.ipu ?? 0, order, data.starts)], position: order, total: data.starts[steps.length] };
  }
  const place = new Map(memory.map((entry, index) => [entry.ipu, index]));
  const found = memory.map(() => ({ step: [], starts: [], end: 0 }));
  let now = 0;
  let updated = 0; // where the updates begin: they run side by side
  let exchanged = 0; // but for exchanges between replicas, which take turns
  let turn = 0;
  for (const [step, next] of orderByTurn(steps)) {
    if (next !== turn && next >= UPDATE_TURN) now = updated = Math.max(now, ...found.map((line) => line.end));
    turn = next;
    const line = found[place.get(steps.ipu[step]) ?? 0];
    const shared = turn === UPDATE_TURN && steps.text("kind", step) === "link";
    const start = turn === UPDATE_TURN ? Math.max(line.end, updated, shared ? exchanged : 0) : now;
    if (start > line.end) {
      line.step.push(-1);
      line.starts.push(line.end);
    }
    position[step] = line.step.length;
    line.step.push(step);
    line.starts.push(start);
    line.end = start + steps.cycles[step];
    if (shared) exchanged = line.end;
    if (turn !== UPDATE_TURN) now = line.end;
  }
  const total = Math.max(...found.map((line) => line.end));
  for (const line of found) {
    if (line.end < total || !line.step.length) {
      line.step.push(-1);
      line.starts.push(line.end);
    }
    line.starts.push(total);
  }
  return { lines: found.map((line, index) => new Timeline(memory[index].ipu, Int32Array.from(line.step), Float64Array.from(line.starts))), position, total };
}

const UPDATE_TURN = 1e9;
const CALL_TURN = 2e9;

// Forward stages in order, backward stages in reverse, then updates, then what runs once a call: [step, turn].
function orderByTurn(steps) {
  const last = steps.stage.reduce((most, stage) => Math.max(most, stage), 0);
  const turnOf = (step) => {
    if (steps.per_call[step]) return CALL_TURN;
    const phase = steps.text("phase", step);
    if (phase === "update") return UPDATE_TURN;
    return phase === "backward" ? 2 * last - steps.stage[step] : steps.stage[step];
  };
  return Array.from({ length: steps.length }, (_, step) => [step, turnOf(step)]).sort((one, other) => one[1] - other[1] || one[0] - other[0]);
}

// Runs of steps of one phase and stage.
function buildStageLane(data, line) {
  const { steps } = data;
  const lane = [];
  for (let position = 0; position < line.length; position++) {
    const step = line.step[position];
    if (step < 0) continue;
    const phase = steps.text("phase", step);
    const stage = phase === "update" ? -1 : steps.stage[step];
    const last = lane.at(-1);
    if (last?.to === position && last.phase === phase && last.stage === stage) last.to = position + 1;
    else {
      const label = stage < 0 ? phase : `stage ${stage} ${phase}`;
      const short = stage < 0 ? "" : `${phase[0].toUpperCase()} ${stage}`;
      lane.push({ label, short, path: `IPU ${line.ipu} › ${label}`, from: position, to: position + 1, op: -1, phase, stage });
    }
  }
  return lane;
}
