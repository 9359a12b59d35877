// The operation graph at any level of detail: ops, or the modules that hold them, in layers from above to below.

const NODE = { width: 190, height: 40, across: 26, down: 34 };
const START_NODES = 48; // so many are opened at first, those with most cycles

// The modules around each op, from the phase inwards, as paths.
class OpPaths {
  constructor(data) {
    this.data = data;
    this.paths = Array.from({ length: data.ops.length }, (_, op) => {
      const names = [data.ops.text("phase", op), ...splitModule(data.ops.text("module", op))];
      return names.map((_, depth) => names.slice(0, depth + 1).join(" › "));
    });
  }

  // The outermost module of an op that is not open; null where the op stands for itself.
  closedAround(op, open) {
    return this.paths[op].find((path) => !open.has(path)) ?? null;
  }

  // What to open at first: the modules with most cycles, until there are enough nodes.
  chooseOpen(most = START_NODES) {
    const open = new Set();
    const cycles = new Map();
    const inside = new Map();
    this.paths.forEach((paths, op) => paths.forEach((path, depth) => {
      cycles.set(path, (cycles.get(path) ?? 0) + this.data.callCycles(op));
      const children = inside.get(path) ?? new Set();
      children.add(paths[depth + 1] ?? `op ${op}`);
      inside.set(path, children);
    }));
    let count = new Set(this.paths.map((paths) => paths[0])).size;
    let ready = [...new Set(this.paths.map((paths) => paths[0]))];
    while (ready.length) {
      ready.sort((one, other) => cycles.get(other) - cycles.get(one));
      const next = ready.findIndex((path) => count + inside.get(path).size - 1 <= most);
      if (next < 0) break;
      const [path] = ready.splice(next, 1);
      open.add(path);
      count += inside.get(path).size - 1;
      ready.push(...[...inside.get(path)].filter((child) => inside.has(child)));
    }
    return open;
  }
}

// Nodes {key, label, ops, order, cycles, x, y, into, from} and edges {source, target, bytes, variables} between them.
function layOutGraph(data, paths, open) {
  const nodes = new Map();
  const nodeOf = Array.from({ length: data.ops.length });
  for (let op = 0; op < data.ops.length; op++) {
    const path = paths.closedAround(op, open);
    const key = path ?? `op ${op}`;
    let node = nodes.get(key);
    if (!node) {
      const label = path === null ? shortenOp(data.ops.text("op", op)) : path.slice(path.lastIndexOf("›") + 1).trim();
      nodes.set(key, (node = { key, path, label, ops: [], order: nodes.size, cycles: 0, rank: 0, into: new Map(), from: new Map() }));
    }
    node.ops.push(op);
    node.cycles += data.callCycles(op);
    nodeOf[op] = node;
  }
  const { edges: table, variables } = data;
  const edges = new Map();
  for (let place = 0; place < table.length; place++) {
    const [source, target] = [nodeOf[table.source[place]], nodeOf[table.target[place]]];
    if (source === target) continue;
    let edge = source.into.get(target);
    if (!edge) {
      edge = { source, target, bytes: 0, variables: new Set() };
      source.into.set(target, edge);
      target.from.set(source, edge);
      edges.set(edge, edge);
    }
    if (edge.variables.has(table.variable[place])) continue;
    edge.variables.add(table.variable[place]);
    edge.bytes += variables.total_bytes[table.variable[place]];
  }
  const list = [...nodes.values()];
  placeNodes(list);
  return { nodes: list, edges: [...edges.keys()], nodeOf, byKey: nodes };
}

// Ranks are longest ways from above; within a rank nodes stand near those that they read from.
function placeNodes(nodes) {
  for (const node of nodes) for (const [source] of node.from) if (source.order < node.order) node.rank = Math.max(node.rank, source.rank + 1);
  const ranks = [];
  for (const node of nodes) (ranks[node.rank] ??= []).push(node);
  const step = NODE.width + NODE.across;
  ranks.forEach((row, rank) => {
    for (const node of row) {
      const above = [...node.from.keys()].filter((source) => source.rank < rank);
      node.wish = above.length ? above.reduce((sum, source) => sum + source.x, 0) / above.length : 0;
    }
    row.sort((one, other) => one.wish - other.wish || one.order - other.order);
    let x = -Infinity;
    for (const node of row) x = node.x = Math.max(node.wish, x + step);
    const shift = row.reduce((sum, node) => sum + node.wish - node.x, 0) / row.length;
    for (const node of row) {
      node.x += shift;
      node.y = rank * (NODE.height + NODE.down);
    }
  });
}
