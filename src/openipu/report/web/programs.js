// View: the program tree with search, and what a program runs, moves and keeps on a tile.

function showPrograms(data, root, parameters) {
  const { steps } = data;
  const programs = countPrograms(data);
  root.append(make("h1", { text: "Program tree" }),
    make("p", { class: "lead", text: `What one call executes, in order: ${formatWhole(steps.length)} steps that run ${formatWhole(programs.size)} different programs. Steps of equal ops share one program and its code.` }));
  if (!steps.length) {
    root.append(make("p", { text: "The program has no steps." }));
    return {};
  }
  const top = buildProgramTree(data);
  const details = make("div", { id: "program-details" });
  const tree = new Tree({ label: "Programs", roots: [top], onChoose: (node) => choose(node), fillRow: (node) => fillRow(node) });
  tree.element.id = "program-tree";
  const search = make("input", { type: "search", id: "search", placeholder: "Op, module, line or vertex", "aria-label": "Search programs", value: parameters.find ?? "",
    oninput: () => find(search.value), onkeydown: (event) => event.key === "Enter" && jump(event.shiftKey ? -1 : 1) });
  const found = make("span", { class: "hint", role: "status", id: "found" });
  const state = { hits: [], at: -1 };
  root.append(
    make("section", { class: "panel", "aria-label": "Program tree" },
      make("div", { class: "controls" }, search, make("button", { type: "button", text: "Previous", onclick: () => jump(-1) }), make("button", { type: "button", text: "Next match", onclick: () => jump(1) }), found),
      make("ul", { class: "legend", "aria-label": "Types of program" }, ...Object.entries(STEP_TYPES).map(([kind, type]) => make("li", {}, makeSwatch(kind), type))),
      make("div", { class: "tree-and-details" }, tree.element, details),
      make("p", { class: "hint", text: "Arrow keys move, right opens, left closes, Enter opens or closes." })),
    makeVertexPanel(data),
  );

  function fillRow(node) {
    const cycles = sumSteps(data, node.steps, "cycles");
    const kind = node.step === undefined ? null : steps.text("kind", node.step);
    return [kind ? makeSwatch(kind) : null, make("span", { class: "tree-type", text: node.type }), make("span", { class: "tree-label", text: shortenText(node.label, 160) }),
      make("span", { class: "tree-figure", text: node.step === undefined ? `${countOf(node.steps.length, "step")}, ${formatTime(data.microseconds(cycles))}${sumByIpu(data, node.steps).size > 1 ? " of all IPUs" : ""}` : `step ${formatWhole(node.step)}, ${formatTime(data.microseconds(cycles))}` })].filter(Boolean);
  }
  function choose(node) {
    address.note({ step: node.steps[0], node: node.step === undefined ? tree.rows.find((row) => row.node === node)?.level : null });
    details.replaceChildren(makeProgramDetails(data, node, programs));
    announce(`${node.type} ${shortenText(node.label)}`);
  }

  function find(text) {
    address.note({ find: text });
    state.hits = text.trim() ? findSteps(data, text) : [];
    state.at = -1;
    found.textContent = text.trim() ? `${formatWhole(state.hits.length)} steps` : "";
  }
  function jump(direction) {
    if (!state.hits.length) return;
    state.at = (state.at + direction + state.hits.length) % state.hits.length;
    tree.reveal(findWay(top, state.hits[state.at], tree));
    found.textContent = `${formatWhole(state.at + 1)} of ${formatWhole(state.hits.length)} steps`;
  }
  function apply(next) {
    const step = Number(next.step);
    if (next.step === undefined || !(step >= 0 && step < steps.length)) {
      openSome();
      details.replaceChildren(makeProgramDetails(data, top, programs));
      return;
    }
    const way = findWay(top, step, tree);
    tree.reveal(next.node === undefined ? way : way.slice(0, Math.max(1, Number(next.node) || 1)));
  }
  // From the top down, as many levels as one can see at a glance.
  function openSome() {
    for (let level = [top]; level.length && tree.rows.length + level.length < ROWS_OPENED; level = level.flatMap((node) => tree.childrenOf(node)).filter((node) => node.hasChildren)) {
      for (const node of level) if (tree.rows.length < ROWS_OPENED) tree.toggle(node, true);
    }
  }
  apply(parameters);
  if (parameters.find) find(parameters.find);
  return { close: () => tree.close(), update: apply, paint: () => tree.paint() };
}

const ROWS_OPENED = 24;

// IPU -> cycles of these steps on it.
function sumByIpu(data, list) {
  const found = new Map();
  for (const step of list) found.set(data.steps.ipu[step], (found.get(data.steps.ipu[step]) ?? 0) + data.steps.cycles[step]);
  return found;
}

function sumSteps(data, list, column) {
  let sum = 0;
  for (const step of list) sum += data.steps[column][step];
  return sum;
}

// Program number -> its steps.
function countPrograms(data) {
  const found = new Map();
  data.steps.program.forEach((program, step) => {
    if (program < 0) return;
    if (found.has(program)) found.get(program).push(step);
    else found.set(program, [step]);
  });
  return found;
}

// Steps whose own texts, or those of their op, contain the text.
function findSteps(data, text) {
  const { steps } = data;
  const wanted = text.trim().toLowerCase();
  const inOps = new Set(findOps(data, text));
  const hits = new Set();
  steps.strings.forEach((string, number) => string.toLowerCase().includes(wanted) && hits.add(number));
  const found = [];
  for (let step = 0; step < steps.length; step++) {
    if (inOps.has(steps.op[step]) || hits.has(steps.name[step]) || hits.has(steps.vertex[step]) || hits.has(steps.kind[step])) found.push(step);
  }
  return found;
}

function makeProgramDetails(data, node, programs) {
  const { steps, ops, variables } = data;
  const cycles = sumSteps(data, node.steps, "cycles");
  const byIpu = sumByIpu(data, node.steps);
  const busiest = Math.max(...byIpu.values());
  const own = new Map(node.steps.filter((step) => steps.program[step] >= 0).map((step) => [steps.program[step], step]));
  const code = (column) => sumSteps(data, [...own.values()], column);
  const other = data.other && node.op >= 0 ? matchOps(data)[node.op] : -1;
  const shared = node.step === undefined ? null : programs.get(steps.program[node.step]);
  const facts = makeFacts("Program", [
    ["Type", node.type],
    ["Name", node.name ? makePath(node.name) : null],
    ["Executed", node.times > 1 ? `${formatWhole(node.times)} times` : null],
    [byIpu.size > 1 ? "Cycles once, all IPUs added up" : "Cycles once", `${formatWhole(cycles)} (${formatTime(data.microseconds(cycles))})`],
    ["Of the busiest IPU", byIpu.size > 1 ? `${formatWhole(busiest)} (${formatTime(data.microseconds(busiest))})` : null],
    ["The same op in the other report", other >= 0 ? make("span", {}, `${formatWhole(data.other.ops.cycles[other])} cycles `, makeChange(data.ops.cycles[node.op], data.other.ops.cycles[other])) : null],
    ["Steps", node.step === undefined ? `${formatWhole(node.steps.length)}, from ${formatWhole(node.steps[0])}` : formatWhole(node.step)],
    ["Different programs", node.step === undefined ? formatWhole(own.size) : null],
    ["Program", node.step === undefined || !shared ? null : `${formatWhole(steps.program[node.step])}, run by ${countOf(shared.length, "step")}`],
    ["First tile", node.step === undefined || steps.first_tile[node.step] < 0 ? null : formatWhole(steps.first_tile[node.step])],
    ...(node.step === undefined ? [] : listBalance(data, node.step)),
    ["Vertex", node.step === undefined || !steps.text("vertex", node.step) ? null : `${steps.text("vertex", node.step)}, ${formatWhole(steps.vertices_per_tile[node.step])} a tile`],
    ["Moved", sumSteps(data, node.steps, "moved_bytes") ? formatBytes(sumSteps(data, node.steps, "moved_bytes")) : null],
    ["FLOPs", sumSteps(data, node.steps, "flops") ? formatWhole(sumSteps(data, node.steps, "flops")) : null],
    ["Vertex state on a tile", code("state_bytes") ? formatBytes(code("state_bytes")) : null],
    ["Exchange code on a tile", code("exchange_code_bytes") ? formatBytes(code("exchange_code_bytes")) : null],
    ["Control code on a tile", code("control_code_bytes") ? formatBytes(code("control_code_bytes")) : null],
    ["Module", node.op >= 0 && ops.text("module", node.op) ? makePath(ops.text("module", node.op)) : null],
    ["Line", node.op >= 0 && ops.text("line", node.op) ? makeSource(ops.text("line", node.op)) : null],
    ["Elsewhere", make("span", {}, make("a", { href: address.link({ view: "liveness", step: node.steps[0] }), text: "liveness" }), " ",
      make("a", { href: address.link(node.step === undefined && node.op >= 0 ? { view: "trace", op: node.op } : { view: "trace", step: node.steps[0] }), text: "trace" }), " ", node.op >= 0 ? make("a", { href: address.link({ view: "graph", op: node.op }), text: "graph" }) : "")],
  ]);
  facts.id = "program-facts";
  const written = node.op >= 0 ? listWritten(data, node.op) : [];
  return make("div", {}, make("h2", { text: shortenText(node.label, 200) }), facts,
    written.length ? make("ul", { class: "notes", "aria-label": "Variables" }, ...written.map((variable) => make("li", {}, makePath(variables.text("name", variable)), ` ${variables.text("shape", variable)} ${variables.text("dtype", variable)}, ${formatBytes(variables.total_bytes[variable])}`))) : null);
}

function listWritten(data, op) {
  const found = [];
  for (let variable = 0; variable < data.variables.length; variable++) if (data.variables.op[variable] === op) found.push(variable);
  return found;
}

// All codelets with what they take, over the different programs.
function makeVertexPanel(data) {
  const count = (report) => {
    const found = new Map();
    const { steps } = report;
    const seen = new Set();
    for (let step = 0; step < steps.length; step++) {
      const name = steps.text("vertex", step);
      if (!name) continue;
      const row = found.get(name) ?? { name, programs: 0, steps: 0, cycles: 0, instances: 0, state: 0 };
      row.steps++;
      row.cycles += steps.cycles[step];
      if (!seen.has(steps.program[step])) {
        seen.add(steps.program[step]);
        row.programs++;
        row.instances += steps.vertices_per_tile[step] * steps.tiles[step];
        row.state += steps.state_bytes[step] * steps.tiles[step];
      }
      found.set(name, row);
    }
    return found;
  };
  const own = count(data);
  if (!own.size) return "";
  const theirs = data.other ? count(data.other) : null;
  const table = makeTable({
    caption: "Vertices", rows: [...own.values()], sort: 3,
    columns: [
      { label: "Vertex", value: (row) => row.name, cell: (row) => makePath(row.name) },
      { label: "Programs", number: true, value: (row) => row.programs, cell: (row) => formatWhole(row.programs) },
      { label: "Steps", number: true, value: (row) => row.steps, cell: (row) => formatWhole(row.steps) },
      { label: "Cycles", number: true, value: (row) => row.cycles, cell: (row) => formatWhole(row.cycles) },
      ...(theirs ? [{ label: "Cycles, other report", number: true, value: (row) => theirs.get(row.name)?.cycles ?? 0, cell: (row) => make("span", {}, formatWhole(theirs.get(row.name)?.cycles ?? 0), " ", makeChange(row.cycles, theirs.get(row.name)?.cycles ?? 0)) }] : []),
      { label: "Instances", number: true, value: (row) => row.instances, cell: (row) => formatWhole(row.instances) },
      { label: "State, all tiles", number: true, value: (row) => row.state, cell: (row) => formatBytes(row.state) },
    ],
  });
  table.element.id = "vertices";
  return makePanel("Vertices", table.element);
}
