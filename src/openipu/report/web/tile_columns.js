// Several tiles side by side: a column each, one row per kind of memory and one row per variable.

// "0, 3, 10-12" -> [0, 3, 10, 11, 12]; what is no tile is left out.
function readTiles(text, count, most = 16) {
  const found = new Set();
  for (const part of String(text).split(/[\s,;]+/)) {
    const [, from, to] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    if (from === undefined) continue;
    for (let tile = Number(from); tile <= Number(to ?? from) && found.size < most; tile++) if (tile < count) found.add(tile);
  }
  return [...found];
}

function makeTileColumns(data, ipu, tiles, parts, totals) {
  const { limit_bytes: limit } = data.summary.fit;
  const column = (tile) => ({ label: `Tile ${tile}`, help: "Bytes on this tile at its own worst step", key: `tile_${tile}`, number: true, value: (row) => row.bytes[tiles.indexOf(tile)], cell: (row) => formatTileBytes(row.bytes[tiles.indexOf(tile)]) });
  const spread = { label: "Difference", number: true, value: (row) => Math.max(...row.bytes) - Math.min(...row.bytes), cell: (row) => formatBytes(Math.max(...row.bytes) - Math.min(...row.bytes)) };
  const row = (name, bytesOf, plain = false) => ({ name, plain, bytes: tiles.map(bytesOf) });
  const kinds = makeTable({
    caption: "Chosen tiles by kind of memory", filter: false,
    rows: [row("total", (tile) => totals[tile], true), row("free below the limit", (tile) => Math.max(0, limit - totals[tile]), true), ...parts.toReversed().map((part) => row(part.name, (tile) => part.bytes[tile]))],
    columns: [{ label: "Memory", value: (entry) => entry.name, cell: (entry) => make("span", {}, entry.plain ? null : makeSwatch(entry.name), nameMemory(entry.name)) }, ...tiles.map(column), spread],
  });
  kinds.element.id = "tile-columns";
  const table = data.variables;
  const memory = data.memory[ipu];
  const rows = [];
  for (let variable = 0; variable < table.length; variable++) {
    if (table.ipu[variable] !== memory.ipu) continue;
    const bytes = tiles.map((tile) => (data.isLive(variable, memory.peakStep[tile]) ? data.bytesOnTile(variable, tile) : 0));
    if (bytes.some(Boolean)) rows.push({ name: table.text("name", variable), kind: data.kindOf(variable), bytes });
  }
  const variables = makeTable({
    caption: "Variables on the chosen tiles", rows, sort: 2,
    columns: [{ label: "Variable", value: (entry) => entry.name, cell: (entry) => makePath(entry.name) }, { label: "Kind", value: (entry) => entry.kind, cell: (entry) => entry.kind }, ...tiles.map(column), spread],
  });
  return make("div", {}, makePanel(`${tiles.length} tiles, each at its own worst step`, kinds.element), makePanel(`Variables on these tiles (${formatWhole(rows.length)})`, variables.element));
}
