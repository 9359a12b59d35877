// Tables leave the page as CSV or JSON files, charts as SVG or PNG.

const saving = { report: "report" };

const makeFileName = (...parts) => parts.join("-").replaceAll(/[^\p{L}\p{N}._-]+/gu, "-").replaceAll(/^-+|-+$/g, "").slice(0, 100);

function saveFile(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  announce(`${name} saved`);
}

// What a column holds without its formatting: a number where it has one.
function readColumn(column, row) {
  if (column.plain) return column.plain(row);
  if (column.value) return column.value(row);
  const content = column.cell(row);
  return content instanceof Node ? content.textContent : content;
}

const nameColumn = (column) => column.key ?? column.label.toLowerCase().replaceAll("µs", "microseconds").replaceAll(/[^\p{L}\p{N}]+/gu, "_").replaceAll(/^_|_$/g, "");

// A cell that begins like a formula would be run by a spreadsheet: it gets an apostrophe in front.
const quoteCell = (value) => (typeof value === "number" ? String(value) : `"${String(value ?? "").replace(/^(?=[=+@\t\r-])/, "'").replaceAll('"', '""')}"`);

function writeCsv(columns, rows) {
  const lines = rows.map((row) => columns.map((column) => quoteCell(readColumn(column, row))).join(","));
  return `${[columns.map(nameColumn).join(","), ...lines].join("\r\n")}\r\n`;
}

function writeJson(columns, rows) {
  return JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column) => [nameColumn(column), readColumn(column, row) ?? null]))), null, 1);
}

// Two buttons for the rows that a table shows now.
function makeSaveButtons(caption, columns, listRows) {
  const base = () => makeFileName(saving.report, caption.toLowerCase());
  const button = (kind, type, write) => make("button", { type: "button", class: `save save-${kind}`, "aria-label": `Save “${caption}” as ${kind.toUpperCase()}`, text: kind.toUpperCase(),
    onclick: () => saveFile(`${base()}.${kind}`, type, write(columns, listRows())) });
  return make("span", { class: "saves" }, button("csv", "text/csv", writeCsv), button("json", "application/json", writeJson));
}

// Two buttons for a chart as it is shown now: draw(context) paints it, size() says how large it is.
function makeImageButtons(name, draw, size) {
  const base = () => makeFileName(saving.report, name);
  const saveSvg = () => {
    const context = new SvgContext(...size(), themeColour("panel"));
    draw(context);
    saveFile(`${base()}.svg`, "image/svg+xml", context.write());
  };
  const savePng = () => {
    const [width, height] = size();
    const canvas = make("canvas", { width: width * 2, height: height * 2 });
    const context = canvas.getContext("2d");
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.fillStyle = themeColour("panel");
    context.fillRect(0, 0, width, height);
    draw(context);
    canvas.toBlob((blob) => saveFile(`${base()}.png`, "image/png", blob));
  };
  const button = (kind, act) => make("button", { type: "button", class: `save save-${kind}`, "aria-label": `Save the chart “${name}” as ${kind.toUpperCase()}`, text: kind.toUpperCase(), onclick: act });
  return make("span", { class: "saves", role: "group", "aria-label": "Save the chart" }, button("svg", saveSvg), button("png", savePng));
}
