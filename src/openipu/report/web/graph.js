// View: the operation graph. Modules open into their parts; wheel zooms, drag pans, arrow keys walk along the edges.

function showGraph(data, root, parameters) {
  root.append(make("h1", { text: "Operation graph" }),
    make("p", { class: "lead", text: "Which op reads what another one wrote. Boxes with a bar at the left are modules: open them by double click or Enter. The more colour a box has, the more of a call it takes." }));
  if (!data.ops.length) {
    root.append(make("p", { text: "The program has no ops." }));
    return {};
  }
  const paths = new OpPaths(data);
  const state = { open: paths.chooseOpen(), graph: null, chosen: null, zoom: 1, x: 0, y: 0, hits: [], at: -1, matches: null };
  const canvas = make("canvas", { class: "graph-canvas", tabindex: "0", role: "application", "aria-label": "Operation graph. Arrow keys walk along edges, Enter opens or closes a module, plus and minus zoom, 0 shows everything." });
  const details = make("div", { id: "graph-details" });
  const search = make("input", { type: "search", id: "search", placeholder: "Op, module or line", "aria-label": "Search the graph", value: parameters.find ?? "", oninput: () => find(search.value), onkeydown: (event) => event.key === "Enter" && jump() });
  const found = make("span", { class: "hint", role: "status", id: "found" });
  const colour = make("select", { "aria-label": "Colour by", onchange: () => paint() }, make("option", { value: "cycles", text: "share of a call" }), make("option", { value: "phase", text: "phase" }), data.other ? make("option", { value: "change", text: `change to ${nameReports(data)[1]}` }) : null);
  if (data.other) colour.value = "change"; // differences first
  const tool = (text, label, act) => make("button", { type: "button", class: "tool", text, title: label, "aria-label": label, onclick: act });
  root.append(make("section", { class: "panel", "aria-label": "Operation graph" },
    make("div", { class: "controls" }, search, tool("Next match", "Next match", () => jump()), found, make("label", {}, "Colour by", colour), make("span", { class: "push" }),
      make("div", { class: "tools", role: "group", "aria-label": "Levels" }, tool("Open all", "Open every module", () => openAll()), tool("Close all", "Close every module", () => relay(new Set()))),
      makeImageButtons("graph", (context) => paintGraph(context, canvas.clientWidth, canvas.clientHeight, data, state, colour.value), () => [canvas.clientWidth, canvas.clientHeight]),
      make("div", { class: "tools", role: "group", "aria-label": "Zoom" }, tool("−", "Zoom out", () => zoomBy(0.7)), tool("+", "Zoom in", () => zoomBy(1.4)), tool("Fit", "Show everything", () => fit(true)))),
    make("div", { class: "graph-and-details" }, canvas, details),
    make("p", { class: "hint", text: `${WHEEL_HINT} Drag pans, arrow keys walk along the edges, Enter opens or closes a module.` })));

  function relay(open, keep = null) {
    const before = keep && state.graph?.byKey.get(keep);
    state.open = open;
    state.graph = layOutGraph(data, paths, open);
    const after = keep && state.graph.byKey.get(keep);
    if (before && after) {
      state.x += (before.x - after.x) * state.zoom;
      state.y += (before.y - after.y) * state.zoom;
    } else fit();
    paint();
  }
  function openAll() {
    relay(new Set(paths.paths.flat()));
  }
  function fit(isWhole = false) {
    const { nodes } = state.graph;
    let [left, right, bottom] = [Infinity, -Infinity, 0];
    for (const node of nodes) {
      left = Math.min(left, node.x);
      right = Math.max(right, node.x + NODE.width);
      bottom = Math.max(bottom, node.y + NODE.height);
    }
    const [width, height] = [canvas.clientWidth || 800, canvas.clientHeight || 500];
    state.whole = Math.min(1.1, (width - 40) / (right - left), (height - 40) / bottom);
    // A large graph is shown from its beginning, at a size at which it can be read.
    state.zoom = isWhole ? state.whole : Math.max(state.whole, READABLE);
    state.x = (right - left) * state.zoom > width ? 20 - left * state.zoom : width / 2 - ((left + right) / 2) * state.zoom;
    state.y = 20;
    paint();
  }
  function centre(node) {
    state.zoom = Math.max(state.zoom, READABLE);
    state.x = canvas.clientWidth / 2 - (node.x + NODE.width / 2) * state.zoom;
    state.y = canvas.clientHeight / 2 - (node.y + NODE.height / 2) * state.zoom;
    paint();
  }
  function zoomBy(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const zoom = Math.min(4, Math.max(0.01, Math.min(state.zoom, state.whole), state.zoom * factor));
    state.x = x - ((x - state.x) * zoom) / state.zoom;
    state.y = y - ((y - state.y) * zoom) / state.zoom;
    state.zoom = zoom;
    paint();
  }

  let frame = 0;
  function paint() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (canvas.clientWidth) drawGraph(canvas, data, state, colour.value);
    });
  }
  function nodeAt(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left - state.x) / state.zoom, (event.clientY - box.top - state.y) / state.zoom];
    return state.graph.nodes.find((node) => x >= node.x && x <= node.x + NODE.width && y >= node.y && y <= node.y + NODE.height) ?? null;
  }

  function choose(node) {
    state.chosen = node;
    address.note(node?.path ? { node: node.path, op: null } : { op: node?.ops[0] ?? null, node: null });
    details.replaceChildren(node ? makeNodeDetails(data, node, choose, toggle) : make("p", { class: "hint", text: "Click a box for its cycles, and for what it reads and writes." }));
    if (node) announce(`${node.label}, ${countOf(node.from.size, "input")}, ${countOf(node.into.size, "output")}`);
    paint();
  }
  // A module opens; an op closes the module around it.
  function toggle(node) {
    const open = new Set(state.open);
    const anchor = node.ops[0];
    if (node.path) open.add(node.path);
    else for (const path of paths.paths[anchor].slice(-1)) open.delete(path);
    relay(open);
    const next = state.graph.nodeOf[anchor];
    choose(next);
    centre(next);
  }
  function reveal(op) {
    relay(new Set([...state.open, ...paths.paths[op]]));
    choose(state.graph.nodeOf[op]);
    centre(state.chosen);
  }
  function find(text) {
    address.note({ find: text });
    state.hits = text.trim() ? findOps(data, text) : [];
    state.matches = text.trim() ? new Set(state.hits) : null;
    state.at = -1;
    found.textContent = text.trim() ? countOf(state.hits.length, "op") : "";
    paint();
  }
  function jump() {
    if (!state.hits.length) return;
    state.at = (state.at + 1) % state.hits.length;
    found.textContent = `${formatWhole(state.at + 1)} of ${countOf(state.hits.length, "op")}`;
    reveal(state.hits[state.at]);
  }

  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    if (event.deltaY > 0 && state.zoom <= state.whole && !event.ctrlKey) return; // everything is in view: the page scrolls
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-Math.max(-80, Math.min(80, event.deltaY)) * 0.004), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, moved: 0 };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) {
      const node = nodeAt(event);
      if (node) tip.show(describeNode(data, node), event.clientX, event.clientY);
      else tip.hide();
      return;
    }
    drag.moved += Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y);
    state.x += event.clientX - drag.x;
    state.y += event.clientY - drag.y;
    Object.assign(drag, { x: event.clientX, y: event.clientY });
    tip.hide();
    paint();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.moved < 5) choose(nodeAt(event));
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => tip.hide());
  canvas.addEventListener("dblclick", (event) => {
    const node = nodeAt(event);
    if (node) toggle(node);
  });
  canvas.addEventListener("keydown", (event) => {
    const node = state.chosen;
    const go = (next) => {
      const target = next ?? state.graph.nodes[0];
      choose(target);
      centre(target);
    };
    const row = () => state.graph.nodes.filter((other) => other.rank === node.rank).sort((one, other) => one.x - other.x);
    const beside = (direction) => row()[row().indexOf(node) + direction] ?? node;
    const acts = {
      ArrowDown: () => go(node && ([...node.into.keys()][0] ?? node)),
      ArrowUp: () => go(node && ([...node.from.keys()].at(-1) ?? node)),
      ArrowLeft: () => go(node && beside(-1)),
      ArrowRight: () => go(node && beside(1)),
      Enter: () => node && toggle(node),
      "+": () => zoomBy(1.4),
      "=": () => zoomBy(1.4),
      "-": () => zoomBy(0.7),
      0: () => fit(true),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  });
  const observer = new ResizeObserver(() => paint());
  observer.observe(canvas);

  function apply(next) {
    const op = Number(next.op ?? -1);
    if (next.op !== undefined && op >= 0 && op < data.ops.length) return reveal(op);
    const inside = next.node === undefined ? -1 : paths.paths.findIndex((list) => list.includes(next.node));
    if (inside < 0) return choose(null);
    const list = paths.paths[inside];
    const open = new Set([...state.open, ...list.slice(0, list.indexOf(next.node))]);
    for (const path of list.slice(list.indexOf(next.node))) open.delete(path);
    relay(open);
    choose(state.graph.byKey.get(next.node) ?? null);
    if (state.chosen) centre(state.chosen);
  }
  relay(state.open);
  apply(parameters);
  if (parameters.find) find(parameters.find);
  return { paint, update: apply, close: () => { observer.disconnect(); cancelAnimationFrame(frame); tip.hide(); } };
}
