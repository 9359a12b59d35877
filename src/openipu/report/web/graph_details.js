// How the operation graph is drawn, and what one of its boxes tells.

const READABLE = 0.92; // the zoom at which letters have their full size
const LETTERS = 12;

function drawGraph(canvas, data, state, colouring) {
  const [width, height, density] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  paintGraph(context, width, height, data, state, colouring);
}

// Letters are as large from afar as from near; boxes too low for them have none.
function paintGraph(context, width, height, data, { graph, zoom, x, y, chosen, matches }, colouring) {
  const isSeen = (node) => {
    const [left, top] = [node.x * zoom + x, node.y * zoom + y];
    return left < width && left + NODE.width * zoom > 0 && top < height && top + NODE.height * zoom > 0;
  };
  const [line, strong, accent, ink, muted] = ["line-strong", "muted", "accent", "ink", "muted"].map(themeColour);
  const isOwn = (edge) => chosen && (edge.source === chosen || edge.target === chosen);
  const view = { zoom, x, y, width, height };
  const seen = graph.edges.filter((edge) => crossesView(edge, view));
  if (seen.length > EDGES_DRAWN_WELL) drawManyEdges(context, seen, view, line);
  else for (const edge of seen) if (!isOwn(edge)) drawEdge(context, edge, view, chosen ? line : strong, 1);
  for (const edge of seen) if (isOwn(edge)) drawEdge(context, edge, view, accent, 2);
  const most = graph.nodes.reduce((high, node) => Math.max(high, node.cycles), 1);
  context.font = `${LETTERS}px ${themeColour("font")}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const node of graph.nodes) {
    if (!isSeen(node)) continue;
    const [left, top, across, down] = [node.x * zoom + x, node.y * zoom + y, NODE.width * zoom, NODE.height * zoom];
    const isMatch = matches && node.ops.some((op) => matches.has(op));
    context.globalAlpha = matches && !isMatch ? 0.35 : 1;
    const [fill, text] = colourNode(data, node, most, colouring);
    context.fillStyle = fill;
    context.fillRect(left, top, across, down);
    context.lineWidth = node === chosen || isMatch ? 2.5 : 1;
    context.strokeStyle = node === chosen || isMatch ? accent : line;
    context.strokeRect(left, top, across, down);
    if (node.path) {
      context.fillStyle = accent;
      context.fillRect(left, top, Math.max(2, 4 * zoom), down);
    }
    if (down >= LETTERS + 2 && across > 40) {
      context.save();
      context.beginPath();
      context.rect(left, top, across - 4, down);
      context.clip();
      context.fillStyle = text ?? ink;
      const isHigh = down > 2.4 * LETTERS;
      drawClipped(context, node.path ? `${node.label} (${formatWhole(node.ops.length)})` : node.label, left + 4 + 6 * zoom, top + down * (isHigh ? 0.32 : 0.5), across - 8 - 6 * zoom, text ?? ink);
      context.fillStyle = text ?? muted;
      if (isHigh) context.fillText(`${formatShare(node.cycles / wholeCycles(data))}, ${formatTime(data.microseconds(node.cycles))}`, left + 4 + 6 * zoom, top + down * 0.7);
      context.restore();
    }
    context.globalAlpha = 1;
  }
}

const EDGES_DRAWN_WELL = 2500;

function crossesView({ source, target }, { zoom, x, y, width, height }) {
  const reach = NODE.width + 200;
  return Math.max(source.y, target.y) * zoom + y + NODE.height * zoom >= 0 && Math.min(source.y, target.y) * zoom + y <= height &&
    (Math.max(source.x, target.x) + reach) * zoom + x >= 0 && Math.min(source.x, target.x) * zoom + x <= width;
}

// From afar edges are straight lines in one stroke: nobody could tell the difference, but the frame rate does.
function drawManyEdges(context, edges, { zoom, x, y }, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 0.5;
  context.beginPath();
  for (const { source, target } of edges) {
    context.moveTo((source.x + NODE.width / 2) * zoom + x, (source.y + NODE.height) * zoom + y);
    context.lineTo((target.x + NODE.width / 2) * zoom + x, target.y * zoom + y);
  }
  context.stroke();
}

// To the next rank straight down; over several ranks in an arc beside the boxes, so that it crosses none of them.
function drawEdge(context, { source, target }, view, colour, lineWidth) {
  const isLong = Math.abs(target.rank - source.rank) > 1;
  const side = isLong ? NODE.width : NODE.width / 2;
  const [x1, y1] = [(source.x + side) * view.zoom + view.x, (source.y + (isLong ? NODE.height / 2 : NODE.height)) * view.zoom + view.y];
  const [x2, y2] = [(target.x + side) * view.zoom + view.x, (target.y + (isLong ? NODE.height / 2 : 0)) * view.zoom + view.y];
  const reach = isLong ? (30 + 14 * Math.sqrt(Math.abs(target.rank - source.rank))) * view.zoom : 0;
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = lineWidth;
  context.globalAlpha = isLong && lineWidth === 1 ? 0.35 : 1;
  context.beginPath();
  context.moveTo(x1, y1);
  const bend = Math.max(12 * view.zoom, Math.abs(y2 - y1) * 0.4);
  if (isLong) context.bezierCurveTo(Math.max(x1, x2) + reach * 1.6, y1 + (y2 - y1) * 0.1, Math.max(x1, x2) + reach * 1.6, y2 - (y2 - y1) * 0.1, x2, y2);
  else context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
  context.stroke();
  if (view.zoom >= 0.3) {
    const size = 4 * Math.min(1, view.zoom) + 1;
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 + (isLong ? size * 1.6 : -size), y2 - (isLong ? size : size * 1.6));
    context.lineTo(x2 + (isLong ? size * 1.6 : size), y2 + (isLong ? size : -size * 1.6));
    context.fill();
  }
  context.globalAlpha = 1;
}

// [fill, colour of the text where it cannot be the usual one]
function colourNode(data, node, most, colouring) {
  if (colouring === "phase") return [colourOf(data.ops.text("phase", node.ops[0])), themeColour("panel")];
  if (colouring === "change" && data.other) {
    const change = changeOfNode(data, node);
    if (change === null) return [themeColour("panel"), null];
    const strength = Math.min(1, Math.abs(change)) * 100;
    return [`color-mix(in srgb, ${themeColour(change > 0 ? "bad" : "good")} ${(strength * 0.6).toFixed(0)}%, ${themeColour("panel")})`, null];
  }
  return [`color-mix(in srgb, ${themeColour("c-compute")} ${(Math.sqrt(node.cycles / most) * 60).toFixed(0)}%, ${themeColour("panel")})`, null];
}

// Relative change of the ops that both reports have; null where there are none.
function changeOfNode(data, node) {
  const matches = matchOps(data);
  let [own, theirs] = [0, 0];
  for (const op of node.ops) {
    if (matches[op] < 0) continue;
    own += data.ops.cycles[op];
    theirs += data.other.ops.cycles[matches[op]];
  }
  return own ? theirs / own - 1 : null;
}

function describeNode(data, node) {
  const change = data.other ? changeOfNode(data, node) : null;
  return [node.path ?? shortenOp(data.ops.text("op", node.ops[0])), ["ops", formatWhole(node.ops.length)], ["of a call", formatShare(node.cycles / wholeCycles(data))], ["time in a call", formatTime(data.microseconds(node.cycles))],
    ...(change === null ? [] : [[nameReports(data)[1], formatChange(1, 1 + change)]]), ["inputs, outputs", `${node.from.size}, ${node.into.size}`]];
}

function makeNodeDetails(data, node, choose, toggle) {
  const { ops } = data;
  const op = node.ops[0];
  const single = node.path === null;
  const change = data.other ? changeOfNode(data, node) : null;
  const facts = makeFacts("Box", [
    [single ? "Op" : "Module", makePath(single ? ops.text("op", op) : node.path)],
    ["Node", single ? ops.text("name", op) : null],
    ["Module", single && ops.text("module", op) ? makePath(ops.text("module", op)) : null],
    ["Line", single ? makeSource(ops.text("line", op)) : null],
    ["Ops", single ? null : formatWhole(node.ops.length)],
    ["Cycles in a call", formatWhole(node.cycles)],
    ["Time in a call", formatTime(data.microseconds(node.cycles))],
    ["Of a call", formatShare(node.cycles / wholeCycles(data))],
    ["Change to the other report", change === null ? null : makeChange(1, 1 + change)],
    ["Elsewhere", single ? make("span", {}, make("a", { href: address.link({ view: "trace", op }), text: "trace" }), " ", ops.step_count[op] ? make("a", { href: address.link({ view: "programs", step: ops.first_step[op] }), text: "program tree" }) : "") : null],
  ]);
  facts.id = "node-facts";
  const list = (title, edges, end) => {
    if (!edges.length) return null;
    const table = makeTable({
      caption: title, rows: edges, sort: 1, portion: 12, onPick: (edge) => choose(edge[end]),
      columns: [
        { label: title, help: "Boxes at the other end of an edge", value: (edge) => edge[end].label, cell: (edge) => makePath(edge[end].label) },
        { label: "Bytes", number: true, value: (edge) => edge.bytes, cell: (edge) => formatBytes(edge.bytes) },
        { label: "Tensors", number: true, value: (edge) => edge.variables.size, cell: (edge) => formatWhole(edge.variables.size), title: (edge) => shortenText([...edge.variables].slice(0, 8).map((variable) => data.variables.text("name", variable)).join(", "), 400) },
      ],
    });
    return table.element;
  };
  return make("div", {}, make("h2", { text: shortenText(node.label, 120) }), facts,
    make("p", { class: "hint" }, make("button", { type: "button", text: single ? "Close its module" : "Open", onclick: () => toggle(node) })),
    list("Reads from", [...node.from.values()], "source"), list("Read by", [...node.into.values()], "target"));
}
