// The vertices of one tile: what each codelet takes there, over the different programs of its steps.

// Rows of {name, instances, programs, steps, code, state}. A codelet's code lies on a tile once; steps of one program share the rest.
function listTileVertices(data, ipu, tile) {
  const { steps } = data;
  const own = data.memory[ipu].ipu;
  const found = new Map();
  const seen = new Set();
  for (let step = 0; step < steps.length; step++) {
    const name = steps.text("vertex", step);
    if (!name || steps.ipu[step] !== own) continue;
    const counts = data.ofTiles("vertices", step);
    const isKnown = counts !== null && counts[tile] >= 0;
    const place = (tile - steps.first_tile[step] + data.tiles) % data.tiles;
    const instances = isKnown ? counts[tile] : place < steps.tiles[step] ? steps.vertices_per_tile[step] : 0;
    if (!instances) continue;
    let row = found.get(name);
    if (!row) found.set(name, (row = { name, instances: 0, programs: 0, steps: 0, code: data.vertexCode[name] ?? 0, state: 0, cycles: 0 }));
    row.steps += 1;
    row.cycles += data.tileCycles(step)?.[tile] ?? steps.cycles[step];
    if (seen.has(steps.program[step])) continue;
    seen.add(steps.program[step]);
    row.programs += 1;
    row.instances += instances;
    // Where tiles differ, the fullest one's state is known: others have as much less as they have fewer vertices.
    row.state += isKnown && steps.vertices_per_tile[step] ? Math.round((steps.state_bytes[step] * instances) / steps.vertices_per_tile[step]) : steps.state_bytes[step];
  }
  return [...found.values()];
}

function makeTileVertices(data, ipu, tile) {
  const rows = listTileVertices(data, ipu, tile);
  const table = makeTable({
    caption: `Vertices on tile ${tile}`, rows, sort: 4, portion: 25,
    columns: [
      { label: "Vertex", help: "The codelet: a program for one worker thread of a tile", value: (row) => row.name, cell: (row) => makePath(row.name) },
      { label: "Instances", help: "Vertices of this type on the tile, over all compute sets", number: true, value: (row) => row.instances, cell: (row) => formatWhole(row.instances) },
      { label: "Compute sets", help: "Different programs that run them; steps of equal ops share one", number: true, value: (row) => row.programs, cell: (row) => formatWhole(row.programs) },
      { label: "Steps", help: "Steps of one micro-batch and one update that run them here", number: true, value: (row) => row.steps, cell: (row) => formatWhole(row.steps) },
      { label: "Code and state", key: "bytes", help: "Bytes on this tile: the code once, the state of every instance", number: true, value: (row) => row.code + row.state, cell: (row) => formatBytes(row.code + row.state) },
      { label: "Code", key: "code_bytes", help: "One copy of the codelet, for all its instances on the tile", number: true, value: (row) => row.code, cell: (row) => formatBytes(row.code) },
      { label: "State", key: "state_bytes", help: "Fields of the instances: pointers, sizes, scalars", number: true, value: (row) => row.state, cell: (row) => formatBytes(row.state) },
    ],
  });
  table.element.id = "tile-vertices";
  const sum = rows.reduce((all, row) => all + row.instances, 0);
  return makePanel(`Vertices on tile ${tile} (${formatWhole(sum)} of ${countOf(rows.length, "type")})`, rows.length ? table.element : make("p", { text: "No vertex runs on this tile." }));
}
