// The data block of the page -> tables of typed arrays. The other end is html.py, which describes the layout.

async function readData(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const headLength = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headLength)));
  const start = Math.ceil((4 + headLength) / 8) * 8;
  // "d": differences from entry to entry, "f8" and "i4": the entries themselves.
  const open = ([type, offset, length]) => {
    const column = type.endsWith("8") ? new Float64Array(buffer, start + offset, length) : new Int32Array(buffer, start + offset, length);
    if (type.startsWith("d")) for (let place = 1; place < length; place++) column[place] += column[place - 1];
    return column;
  };
  const tables = {};
  for (const [name, columns] of Object.entries(head.tables)) {
    tables[name] = new Table(columns, open, head.strings);
  }
  const memory = head.memory.map((entry) => ({
    ipu: entry.ipu,
    alwaysLive: open(entry.alwaysLive),
    peakNotAlwaysLive: open(entry.peakNotAlwaysLive),
    peakStep: open(entry.peakStep),
    liveByStep: open(entry.liveByStep),
    fullestByStep: open(entry.fullestByStep),
    categories: Object.fromEntries(Object.entries(entry.categories).map(([name, place]) => [name, open(place)])),
  }));
  return Object.assign(new ProfileData(head.summary, head.executions, tables, memory, head.tree), { label: head.label, vertexCode: head.vertexCode, tileSteps: tables.tileSteps });
}

class Table {
  constructor(columns, open, strings) {
    this.strings = strings;
    this.length = 0;
    for (const [name, place] of Object.entries(columns)) {
      this[name] = open(place);
      this.length = this[name].length;
    }
  }
  text(column, row) {
    return this.strings[this[column][row]];
  }
}

const COPYING = ["layout", "transfer"]; // families of ops
const KIND_ORDER = ["activation", "gradient", "copy", "scratch"];

function pickSeries(kinds, kind, length) {
  if (!kinds.has(kind)) kinds.set(kind, new Float64Array(length));
  return kinds.get(kind);
}

// In one order everywhere. Where the variables do not add up to the whole, what is missing has no kind.
function orderKinds(kinds, whole) {
  const rest = Float64Array.from(whole);
  for (const bytes of kinds.values()) for (let place = 0; place < rest.length; place++) rest[place] -= bytes[place];
  for (let place = 0; place < rest.length; place++) {
    if (rest[place] >= 0) continue;
    for (const bytes of kinds.values()) bytes[place] = 0;
    rest[place] = whole[place];
  }
  if (rest.some((bytes) => bytes > 0)) kinds.set("not always live", rest);
  const rank = (kind) => (KIND_ORDER.includes(kind) ? KIND_ORDER.indexOf(kind) : KIND_ORDER.length);
  return [...kinds].sort(([one], [other]) => rank(one) - rank(other));
}

class ProfileData {
  constructor(summary, executions, tables, memory, tree) {
    this.tree = tree; // of a program that was built by hand; empty for others
    this.held = tables.held;
    this.summary = summary;
    this.executions = executions;
    this.ops = tables.ops;
    this.steps = tables.steps;
    this.variables = tables.variables;
    this.edges = tables.edges;
    this.other = null; // the report that this one is compared with
    this.memory = memory;
    this.tiles = summary.system.tiles_per_ipu;
    this.clock = summary.timing.clock_hz;
    this.starts = new Float64Array(this.steps.length + 1); // cycles at which each step begins
    for (let step = 0; step < this.steps.length; step++) {
      this.starts[step + 1] = this.starts[step] + this.steps.cycles[step];
    }
  }

  // Bytes that each op writes, without its scratch memory.
  get writtenBytes() {
    if (this.written) return this.written;
    const { variables } = this;
    this.written = new Float64Array(this.ops.length);
    for (let variable = 0; variable < variables.length; variable++) {
      const op = variables.op[variable];
      if (op >= 0 && variables.text("kind", variable) !== "scratch") this.written[op] += variables.total_bytes[variable];
    }
    return this.written;
  }

  // Cycles that each op spends in steps of one kind.
  cyclesInKind(kind) {
    this.inKind ??= new Map();
    if (!this.inKind.has(kind)) {
      const { steps } = this;
      const cycles = new Float64Array(this.ops.length);
      const wanted = steps.strings.indexOf(kind);
      for (let step = 0; step < steps.length; step++) if (steps.op[step] >= 0 && steps.kind[step] === wanted) cycles[steps.op[step]] += steps.cycles[step];
      this.inKind.set(kind, cycles);
    }
    return this.inKind.get(kind);
  }

  microseconds(cycles) {
    return (cycles / this.clock) * 1e6;
  }

  // What each tile takes in one execution of a step, or null where all its tiles take as long.
  tileCycles(step) {
    return this.ofTiles("cycles", step);
  }
  ofTiles(column, step) {
    this.tilePlaces ??= new Map([...this.tileSteps.step].map((known, place) => [known, place]));
    const place = this.tilePlaces.get(step);
    return place === undefined ? null : this.tileSteps[column].subarray(place * this.tiles, (place + 1) * this.tiles);
  }

  // Cycles of an op in one call, over all its executions.
  callCycles(op) {
    return this.ops.cycles[op] * (this.executions[this.ops.text("phase", op)] ?? 1);
  }

  // The same arithmetic as TileMapping: whole grains, spread evenly over consecutive tiles.
  bytesOnTile(variable, tile) {
    const table = this.variables;
    if (table.own_first[variable] >= 0) return this.ownBytes(variable).get(tile) ?? 0;
    const tiles = table.tiles[variable];
    const place = (((tile - table.first_tile[variable]) % this.tiles) + this.tiles) % this.tiles;
    if (place >= tiles || !table.total_bytes[variable]) return 0;
    const grain = table.grain_bytes[variable];
    const grains = Math.ceil(table.total_bytes[variable] / grain);
    return (Math.floor(((place + 1) * grains) / tiles) - Math.floor((place * grains) / tiles)) * grain;
  }

  // Where a program mapped its tensors itself: the tiles that hold any of a variable, and how much.
  ownBytes(variable) {
    this.own ??= new Map();
    if (!this.own.has(variable)) {
      const first = this.variables.own_first[variable];
      const held = new Map();
      for (let place = first; place < first + this.variables.own_count[variable]; place++) {
        held.set(this.held.place[place], this.held.bytes[place]);
      }
      this.own.set(variable, held);
    }
    return this.own.get(variable);
  }

  isLive(variable, step) {
    const table = this.variables;
    return table.always_live[variable] || (table.first_step[variable] <= step && step <= table.last_step[variable]);
  }

  // Not-always-live bytes of one tile at every step.
  liveOnTile(ipu, tile) {
    const table = this.variables;
    const live = new Float64Array(this.steps.length + 1);
    for (let variable = 0; variable < table.length; variable++) {
      if (table.always_live[variable] || table.ipu[variable] !== ipu) continue;
      const held = this.bytesOnTile(variable, tile);
      live[table.first_step[variable]] += held;
      live[Math.min(table.last_step[variable] + 1, this.steps.length)] -= held;
    }
    for (let step = 1; step <= this.steps.length; step++) live[step] += live[step - 1];
    return live.subarray(0, this.steps.length);
  }

  // What a variable is kept for. A copy is the result of an op that only moves or reorders bytes; `Profile.kind_of` says the same.
  kindOf(variable) {
    const kind = this.variables.text("kind", variable);
    const op = this.variables.op[variable];
    const changing = kind === "activation" || kind === "gradient";
    return changing && op >= 0 && COPYING.includes(this.ops.text("family", op)) ? "copy" : kind;
  }

  // What a variable takes on all its tiles: whole grains.
  heldBytes(variable) {
    const table = this.variables;
    if (table.own_first[variable] >= 0) return [...this.ownBytes(variable).values()].reduce((sum, bytes) => sum + bytes, 0);
    const grain = table.grain_bytes[variable];
    return grain ? Math.ceil(table.total_bytes[variable] / grain) * grain : 0;
  }

  // Not-always-live bytes at every step by kind, on all tiles or on one: they add up to `live`.
  liveByKind(ipu, live, tile = null) {
    const table = this.variables;
    const kinds = new Map();
    for (let variable = 0; variable < table.length; variable++) {
      if (table.always_live[variable] || table.ipu[variable] !== ipu) continue;
      const held = tile === null ? this.heldBytes(variable) : this.bytesOnTile(variable, tile);
      if (!held) continue;
      const bytes = pickSeries(kinds, this.kindOf(variable), this.steps.length + 1);
      bytes[table.first_step[variable]] += held;
      bytes[Math.min(table.last_step[variable] + 1, this.steps.length)] -= held;
    }
    for (const bytes of kinds.values()) for (let step = 1; step <= this.steps.length; step++) bytes[step] += bytes[step - 1];
    return orderKinds(kinds, live);
  }

  // Not-always-live bytes of each tile at its own worst step by kind: they add up to the peak of the tile.
  peakByKind(ipu) {
    const table = this.variables;
    const { ipu: own, peakStep, peakNotAlwaysLive } = this.memory[ipu];
    const kinds = new Map();
    for (let variable = 0; variable < table.length; variable++) {
      if (table.always_live[variable] || table.ipu[variable] !== own) continue;
      const [first, last] = [table.first_step[variable], table.last_step[variable]];
      const count = Math.min(table.tiles[variable], this.tiles);
      for (let place = 0; place < count; place++) {
        const tile = (table.first_tile[variable] + place) % this.tiles;
        if (peakStep[tile] < first || peakStep[tile] > last) continue;
        const held = this.bytesOnTile(variable, tile);
        if (held) pickSeries(kinds, this.kindOf(variable), this.tiles)[tile] += held;
      }
    }
    return orderKinds(kinds, peakNotAlwaysLive);
  }

  // Stacked parts of the memory of each tile, bottom first: code, always-live variables by kind, the rest at its peak.
  tileParts(ipu) {
    const memory = this.memory[ipu];
    const parts = Object.entries(memory.categories).map(([name, bytes]) => ({ name, group: "code", bytes }));
    const kinds = new Map();
    const named = new Float64Array(this.tiles);
    for (let variable = 0; variable < this.variables.length; variable++) {
      if (!this.variables.always_live[variable] || this.variables.ipu[variable] !== memory.ipu) continue;
      const kind = this.variables.text("kind", variable);
      if (!kinds.has(kind)) kinds.set(kind, new Float64Array(this.tiles));
      const bytes = kinds.get(kind);
      const count = Math.min(this.variables.tiles[variable], this.tiles);
      for (let place = 0; place < count; place++) {
        const tile = (this.variables.first_tile[variable] + place) % this.tiles;
        const held = this.bytesOnTile(variable, tile);
        bytes[tile] += held;
        named[tile] += held;
      }
    }
    for (const [name, bytes] of kinds) parts.push({ name, group: "variables", bytes });
    const unnamed = Float64Array.from(memory.alwaysLive, (bytes, tile) => bytes - named[tile]);
    if (unnamed.some((bytes) => bytes > 0)) parts.push({ name: "other", group: "variables", bytes: unnamed });
    for (const [kind, bytes] of this.peakByKind(ipu)) parts.push({ name: kinds.has(kind) ? `${kind}, not always live` : kind, group: "not always live", bytes });
    return parts.filter((part) => part.bytes.some((bytes) => bytes > 0));
  }

  // A variable has the module and line of the op that makes it; a parameter has the module in its name.
  variableOrigin(variable) {
    const op = this.variables.op[variable];
    if (op >= 0) return { op, module: this.ops.text("module", op), line: this.ops.text("line", op) };
    const name = this.variables.text("name", variable);
    const owned = name.slice(name.lastIndexOf(":") + 1);
    return { op, module: owned.includes(".") ? owned.slice(0, owned.lastIndexOf(".")) : "", line: "" };
  }
}
