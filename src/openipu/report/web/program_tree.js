// The tree of programs that one call executes: repeats and sequences, then modules, ops and their steps.

const STEP_TYPES = { compute: "OnTileExecute", exchange: "DoExchange", sync: "Sync", host: "StreamCopy", link: "GlobalExchange" };

// Nodes have: type, label, name, steps (numbers, in order), times (a repeat's count), op, step, way (from the root).
function buildProgramTree(data) {
  const { steps, summary } = data;
  if (data.tree.length) return buildOwnTree(data);
  const parts = { before: [], micro: [], update: [], after: [] };
  for (let step = 0; step < steps.length; step++) {
    if (steps.per_call[step]) parts[parts.micro.length ? "after" : "before"].push(step);
    else parts[steps.text("phase", step) === "update" ? "update" : "micro"].push(step);
  }
  const iterations = summary.options.device_iterations ?? 1;
  const accumulation = (data.executions.forward ?? iterations) / iterations;
  const sequence = (label, own, times = 1, children = null) => ({ type: times > 1 ? "Repeat" : "Sequence", label: times > 1 ? `${label}, ${formatWhole(times)} times` : label, name: label, steps: own, times, hasChildren: own.length > 0, children: children ?? (() => splitByModule(data, own, 0)) });
  const micro = sequence("micro-batch", parts.micro, accumulation, () => splitByPhase(data, parts.micro));
  const update = sequence("update", parts.update);
  const body = [micro, update].filter((node) => node.steps.length);
  const loop = sequence("device iterations", [...parts.micro, ...parts.update], iterations, () => body);
  const aside = (label, own) => (own.length ? [sequence(label, own)] : []);
  const roots = [...aside("once, before", parts.before), ...(iterations > 1 ? [loop] : body), ...aside("once, after", parts.after)];
  return { label: summary.name, name: summary.name, type: "Sequence", steps: Array.from({ length: steps.length }, (_, step) => step), times: 1, hasChildren: steps.length > 0, children: () => roots };
}

// The tree of a program that was built by hand: rows of [type, name, parent, count, first step, steps], parents first.
function buildOwnTree(data) {
  const nodes = data.tree.map(([type, name, , times, first, length]) => ({ type, label: times > 1 ? `${name || type}, ${formatWhole(times)} times` : name || type, name, times, steps: Array.from({ length }, (_, place) => first + place), inside: [] }));
  for (let place = nodes.length - 1; place >= 0; place--) {
    const parent = nodes[data.tree[place][2]];
    if (!parent) continue;
    parent.inside.unshift(nodes[place]);
    parent.steps = [...nodes[place].steps, ...parent.steps].sort((a, b) => a - b);
  }
  for (const node of nodes) {
    node.hasChildren = node.steps.length > 0;
    if (node.inside.length) node.children = () => node.inside.filter((child) => child.steps.length);
    else node.children = () => splitByModule(data, node.steps, 9);
  }
  const tops = nodes.filter((node, place) => data.tree[place][2] < 0 && node.steps.length);
  const name = data.summary.name;
  return { label: name, name, type: "Sequence", steps: Array.from({ length: data.steps.length }, (_, step) => step), times: 1, hasChildren: true, children: () => tops };
}

function splitByPhase(data, own) {
  const found = groupRuns(own, (step) => `${data.steps.text("phase", step)}\n${data.memory.length > 1 ? data.steps.stage[step] : ""}`);
  return found.map(({ key, steps }) => {
    const [phase, stage] = key.split("\n");
    const label = stage === "" ? phase : `${phase}, stage ${stage}`;
    return { type: "Sequence", label, name: label, steps, times: 1, hasChildren: true, children: () => splitByModule(data, steps, 0) };
  });
}

// Neighbours of one module, then of one op, then single steps.
function splitByModule(data, own, depth) {
  const { steps, ops } = data;
  const pathOf = (step) => (steps.op[step] >= 0 ? splitModule(ops.text("module", steps.op[step])) : []);
  const found = groupRuns(own, (step) => (pathOf(step).length > depth ? `m${pathOf(step).slice(0, depth + 1).join(".")}` : steps.op[step] >= 0 ? `o${steps.op[step]}` : `s${step}`));
  return found.map(({ key, steps: inside }) => {
    const first = inside[0];
    if (key[0] === "m") return { type: "Module", label: pathOf(first)[depth], name: key.slice(1), steps: inside, times: 1, hasChildren: true, children: () => splitByModule(data, inside, depth + 1) };
    if (key[0] === "s") return makeStepNode(data, first);
    const op = steps.op[first];
    return { type: "Op", label: shortenOp(ops.text("op", op)), name: ops.text("name", op), steps: inside, times: 1, op, hasChildren: true, children: () => inside.map((step) => makeStepNode(data, step)) };
  });
}

function makeStepNode(data, step) {
  const { steps } = data;
  const kind = steps.text("kind", step);
  return { type: STEP_TYPES[kind] ?? kind, label: steps.text("name", step), name: steps.text("vertex", step), steps: [step], times: 1, op: steps.op[step], step, hasChildren: false };
}

// "encoder.layer.0.output" -> "encoder", "layer.0", "output": an index says nothing without its name.
const splitModule = (module) => (module ? module.split(/\.(?=[^\d])/) : []);

function groupRuns(list, keyOf) {
  const runs = [];
  for (const step of list) {
    const key = keyOf(step);
    if (runs.at(-1)?.key === key) runs.at(-1).steps.push(step);
    else runs.push({ key, steps: [step] });
  }
  return runs;
}

// The nodes from the root to a step.
function findWay(root, step, tree) {
  const way = [root];
  for (;;) {
    const next = tree.childrenOf(way.at(-1)).find((node) => includesStep(node.steps, step));
    if (!next) return way;
    way.push(next);
  }
}

// Steps of a node are in order.
function includesStep(steps, step) {
  let [low, high] = [0, steps.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (steps[middle] === step) return true;
    if (steps[middle] < step) low = middle + 1;
    else high = middle - 1;
  }
  return false;
}
