// View 5: every op in a table that sorts, filters and leaves as CSV.

function showOperations(data, root, parameters) {
  const { ops } = data;
  const whole = data.summary.timing.call_cycles || 1;
  root.append(make("h1", { text: "Operations" }),
    make("p", { class: "lead", text: "Every op of the program with its modelled cost. Cycles and time are for one execution; the share is of a whole call." }));
  const rate = (op) => (ops.cycles[op] ? (ops.flops[op] / ops.cycles[op]) * data.clock : 0);
  const columns = [
    { key: "op", label: "Op", value: (op) => ops.text("op", op), cell: (op) => makePath(shortenOp(ops.text("op", op))), title: (op) => ops.text("name", op) },
    { key: "cycles", label: "Cycles", number: true, value: (op) => ops.cycles[op], cell: (op) => formatWhole(ops.cycles[op]) },
    { key: "us", label: "µs", number: true, value: (op) => ops.cycles[op], cell: (op) => formatMicroseconds(data.microseconds(ops.cycles[op])).replace(" µs", ""), csv: (op) => data.microseconds(ops.cycles[op]) },
    { key: "share", label: "Of a call", number: true, value: (op) => data.callCycles(op) / whole, cell: (op) => formatShare(data.callCycles(op) / whole) },
    { key: "flops", label: "FLOP/s", number: true, value: rate, cell: (op) => (ops.flops[op] ? formatRate(rate(op)).replace("FLOP/s", "") : "–") },
    { key: "peak", label: "Of peak", number: true, value: (op) => ops.share_of_peak[op], cell: (op) => (ops.share_of_peak[op] < 0 ? "–" : formatShare(ops.share_of_peak[op])), csv: (op) => (ops.share_of_peak[op] < 0 ? "" : ops.share_of_peak[op]) },
    { key: "moved", label: "Moved", number: true, value: (op) => ops.moved_bytes[op], cell: (op) => (ops.moved_bytes[op] ? formatBytes(ops.moved_bytes[op]) : "–") },
    { key: "family", label: "Family", value: (op) => ops.text("family", op), cell: (op) => ops.text("family", op) },
    { key: "phase", label: "Phase", value: (op) => ops.text("phase", op), cell: (op) => ops.text("phase", op) },
    { key: "module", label: "Module", value: (op) => ops.text("module", op), cell: (op) => make("span", { class: "module" }, makePath(ops.text("module", op) || "–")) },
    { key: "line", label: "Line", value: (op) => ops.text("line", op), cell: (op) => makeSource(ops.text("line", op)) },
    { key: "provenance", label: "Figures", value: (op) => ops.text("provenance", op), cell: (op) => (ops.text("provenance", op) === "guessed" ? make("span", { class: "tag", text: "guessed" }) : ops.text("provenance", op)), title: (op) => ops.text("basis", op) },
  ];
  const everything = Array.from({ length: ops.length }, (_, op) => op);
  let rows = everything;
  const sorted = columns.findIndex((column) => column.key === parameters.sort);
  const table = makeTable({
    caption: "Operations",
    columns, rows,
    sort: sorted < 0 ? 1 : sorted,
    descending: parameters.order !== "up",
    portion: 150,
    onSort: (place, descending) => address.note({ sort: columns[place].key, order: descending ? "down" : "up" }),
    onPick: (op) => (location.hash = address.link({ view: "trace", op })),
  });
  table.element.id = "operations";
  const filter = make("input", { type: "search", id: "filter", placeholder: "Op, module, line, family …", "aria-label": "Filter operations", value: parameters.filter ?? "", oninput: () => narrow(filter.value) });
  const count = make("span", { class: "hint", role: "status", id: "count" });
  root.append(
    make("section", { class: "panel", "aria-label": "Operations" },
      make("div", { class: "controls" }, filter, count, make("span", { class: "push" }), make("button", { type: "button", id: "csv", text: "Save as CSV", onclick: () => saveCsv() })),
      table.element),
  );

  function narrow(text) {
    address.note({ filter: text });
    rows = text.trim() ? findOps(data, text) : everything;
    table.setRows(rows);
    tell();
  }
  function tell() {
    const cycles = rows.reduce((sum, op) => sum + data.callCycles(op), 0);
    count.textContent = `${formatWhole(rows.length)} of ${formatWhole(ops.length)} ops, ${formatShare(cycles / whole)} of a call`;
  }
  function saveCsv() {
    const names = ["op", "cycles", "microseconds", "share_of_call", "flops_per_second", "share_of_peak", "moved_bytes", "family", "phase", "module", "line", "provenance"];
    // A cell that begins like a formula would be run by a spreadsheet: it gets an apostrophe in front.
    const quote = (value) => `"${String(value).replace(/^(?=[=+@])/, "'").replaceAll('"', '""')}"`;
    const write = (column, op) => {
      const value = (column.csv ?? column.value)(op);
      return typeof value === "number" ? String(value) : quote(value);
    };
    const lines = [names.join(","), ...rows.map((op) => columns.map((column) => write(column, op)).join(","))];
    const link = make("a", { href: URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" })), download: `${data.summary.name}-operations.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    announce("CSV saved");
  }

  if (parameters.filter) narrow(parameters.filter);
  else tell();
  return { update: () => {} };
}
