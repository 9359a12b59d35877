// View: the ops with their cost, one by one or added up by layer, module, source line and more.

function showOperations(data, root, parameters) {
  const { ops } = data;
  const whole = data.summary.timing.call_cycles || 1;
  root.append(make("h1", { text: "Operations" }),
    make("p", { class: "lead", text: "Every op of the program with its modelled cost, alone or added up by layer, module or line of your code. Cycles of a single op are for one execution; shares are of a whole call." }));
  const everything = Array.from({ length: ops.length }, (_, op) => op);
  const state = { group: Object.hasOwn(GROUPINGS, parameters.group ?? "") ? parameters.group : "op", of: parameters.of, only: parameters.only, rows: everything, table: null, sort: parameters.sort, up: parameters.order === "up" };
  const filter = make("input", { type: "search", id: "filter", placeholder: "Op, module, line, family …", "aria-label": "Filter operations", value: parameters.filter ?? "", oninput: () => narrow(filter.value) });
  const count = make("span", { class: "hint", role: "status", id: "count" });
  const choice = make("select", { id: "group", "aria-label": "Added up by", onchange: () => group(choice.value) },
    ...Object.entries(GROUPINGS).filter(([name]) => name !== "ipu" || data.memory.length > 1).map(([name, [title]]) => make("option", { value: name, text: title })));
  const within = make("span", { class: "chip", id: "within", hidden: true });
  const holder = make("div", {});
  root.append(make("section", { class: "panel", "aria-label": "Operations of the program" },
    make("div", { class: "controls" }, make("label", {}, "By", choice), filter, within, count), holder));

  // A click on a group shows its single ops; the chip leads back.
  function open(kind, key) {
    Object.assign(state, { of: kind, only: key, sort: undefined });
    address.note({ of: kind, only: key, sort: null, order: null });
    group("op");
  }
  function group(name) {
    if (name !== "op" && state.of !== undefined) {
      Object.assign(state, { of: undefined, only: undefined });
      address.note({ of: null, only: null });
    }
    state.group = name;
    address.note({ group: name === "op" ? null : name });
    build();
  }
  function select() {
    const text = filter.value;
    const found = text.trim() ? findOps(data, text) : everything;
    const keyOf = GROUPINGS[state.of]?.[1];
    state.rows = keyOf && state.only !== undefined ? found.filter((op) => keyOf(data, op) === state.only) : found;
  }
  function build() {
    select();
    choice.value = state.group;
    const onSort = (key, descending) => {
      Object.assign(state, { sort: key, up: !descending });
      address.note({ sort: key, order: descending ? "down" : "up" });
    };
    const settings = { sort: state.sort, descending: !state.up, onSort };
    state.table = state.group === "op" ? makeOpTable(data, state.rows, settings) : makeGroupTable(data, state.group, state.rows, { ...settings, onPick: (row) => open(state.group, row.key) });
    state.table.element.id = "operations";
    holder.replaceChildren(state.table.element);
    const kind = GROUPINGS[state.of]?.[0];
    within.hidden = !kind;
    if (kind) within.replaceChildren(`${kind}: ${shortenText(state.only || "none", 80)} `, make("button", { type: "button", "aria-label": "Back to the groups", text: "×", onclick: () => group(state.of) }));
    tell();
  }
  function narrow(text) {
    address.note({ filter: text });
    if (state.group === "op") {
      select();
      state.table.setRows(state.rows);
      tell();
    } else build();
  }
  function tell() {
    const cycles = state.rows.reduce((sum, op) => sum + data.callCycles(op), 0);
    const share = formatShare(cycles / (data.memory.length > 1 ? wholeCycles(data) : whole));
    const groups = state.table.groups ? `${countOf(state.table.groups.length, "group")}, ` : "";
    count.textContent = `${groups}${formatWhole(state.rows.length)} of ${formatWhole(ops.length)} ops, ${share} of a call`;
  }
  build();
  return { update: () => {} };
}

function makeOpTable(data, rows, { sort, descending, onSort }) {
  const { ops } = data;
  const whole = data.summary.timing.call_cycles || 1;
  const rate = (op) => (ops.cycles[op] ? (ops.flops[op] / ops.cycles[op]) * data.clock : 0);
  const exchange = data.cyclesInKind("exchange");
  const exchangeOf = (op) => (ops.cycles[op] ? exchange[op] / ops.cycles[op] : 0);
  const matches = matchOps(data);
  const theirs = (op) => (matches[op] >= 0 ? data.other.ops.cycles[matches[op]] : 0);
  const columns = [
    { key: "op", label: "Op", value: (op) => ops.text("op", op), cell: (op) => makePath(shortenOp(ops.text("op", op))), title: (op) => ops.text("name", op) },
    { key: "cycles", label: "Cycles", number: true, value: (op) => ops.cycles[op], cell: (op) => formatWhole(ops.cycles[op]) },
    { key: "microseconds", label: "Time", number: true, value: (op) => ops.cycles[op], cell: (op) => formatTime(data.microseconds(ops.cycles[op])), plain: (op) => data.microseconds(ops.cycles[op]) },
    { key: "share_of_call", label: "Of a call", number: true, value: (op) => data.callCycles(op) / whole, cell: (op) => formatShare(data.callCycles(op) / whole) },
    ...(matches ? [
      { key: "cycles_other", label: `Cycles, ${nameReports(data)[1]}`, help: GLOSSARY["Cycles, other report"], number: true, value: theirs, cell: (op) => (matches[op] >= 0 ? formatWhole(theirs(op)) : "not there") },
      { key: "change", label: "Change", number: true, value: (op) => Math.abs(theirs(op) - ops.cycles[op]), plain: (op) => theirs(op) - ops.cycles[op], cell: (op) => (matches[op] >= 0 ? makeChange(ops.cycles[op], theirs(op)) : "–") },
    ] : []),
    { key: "exchange", spare: Boolean(matches), label: "Exchange", number: true, value: exchangeOf, cell: (op) => (ops.cycles[op] ? formatShare(exchangeOf(op)) : "–"), title: () => "share of its cycles that is exchange" },
    { key: "flops_per_second", spare: true, label: "FLOP/s", number: true, value: rate, cell: (op) => (ops.flops[op] ? formatRate(rate(op)).replace("FLOP/s", "") : "–") },
    { key: "peak", label: "Of peak", number: true, value: (op) => ops.share_of_peak[op], cell: (op) => (ops.share_of_peak[op] < 0 ? "–" : formatShare(ops.share_of_peak[op])), plain: (op) => (ops.share_of_peak[op] < 0 ? "" : ops.share_of_peak[op]) },
    { key: "moved_bytes", label: "Moved", number: true, value: (op) => ops.moved_bytes[op], cell: (op) => (ops.moved_bytes[op] ? formatBytes(ops.moved_bytes[op]) : "–") },
    { key: "written_bytes", spare: true, label: "Written", number: true, value: (op) => data.writtenBytes[op], cell: (op) => (data.writtenBytes[op] ? formatBytes(data.writtenBytes[op]) : "–") },
    { key: "family", spare: true, label: "Family", value: (op) => ops.text("family", op), cell: (op) => ops.text("family", op) },
    { key: "phase", label: "Phase", value: (op) => ops.text("phase", op), cell: (op) => ops.text("phase", op) },
    { key: "module", label: "Module", value: (op) => ops.text("module", op), cell: (op) => make("span", { class: "module" }, makePath(ops.text("module", op) || "–")) },
    { key: "line", label: "Line", value: (op) => ops.text("line", op), cell: (op) => makeSource(ops.text("line", op)) },
    { key: "provenance", spare: true, label: "Figures", value: (op) => ops.text("provenance", op), cell: (op) => (ops.text("provenance", op) === "guessed" ? make("span", { class: "tag", text: "guessed" }) : ops.text("provenance", op)), title: (op) => ops.text("basis", op) },
  ];
  const place = columns.findIndex((column) => column.key === sort);
  return makeTable({ caption: "Operations", columns, rows, sort: place >= 0 ? place : matches ? columns.findIndex((column) => column.key === "change") : 1, descending, portion: 150, filter: false, onSort: (at, down) => onSort(columns[at].key, down), onPick: (op) => (location.hash = address.link({ view: "trace", op })) });
}
