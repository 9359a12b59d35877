// All IPUs at a glance: the verdict on each, and small charts of their tiles.

const verdictOf = (entry) => (entry.fits ? "fits" : `${formatBytes(entry.bytes_over)} over on ${countOf(entry.tiles_over, "tile")}`);

// One row an IPU, for the first page.
function makeIpuVerdicts(data) {
  const { fit, pipeline } = data.summary;
  const loads = new Map((pipeline?.ipus ?? []).map((load) => [load.ipu, load]));
  const table = makeTable({
    caption: "Does each IPU's part fit?",
    rows: fit.ipus,
    onPick: (row) => (location.hash = address.link({ view: "memory", ipu: fit.ipus.indexOf(row) })),
    columns: [
      { label: "IPU", value: (row) => row.ipu, cell: (row) => `IPU ${row.ipu}` },
      { label: "Verdict", value: (row) => row.bytes_over, cell: (row) => make("span", { class: row.fits ? "tag good" : "tag", text: verdictOf(row) }) },
      { label: "Fullest tile", number: true, value: (row) => row.peak_bytes, cell: (row) => formatTileBytes(row.peak_bytes) },
      { label: `Of ${formatTileBytes(fit.limit_bytes)}`, help: "Share of what a tile can use", number: true, value: (row) => row.peak_bytes, cell: (row) => make("span", {}, formatShare(row.peak_bytes / fit.limit_bytes), makeMeter(row.peak_bytes / fit.limit_bytes, row.fits ? "good" : "bad")) },
      { label: "Tile", number: true, value: (row) => row.peak_tile, cell: (row) => formatWhole(row.peak_tile) },
      { label: "All tiles", number: true, value: (row) => row.needed_bytes, cell: (row) => formatBytes(row.needed_bytes) },
      ...(pipeline ? [
        { label: "Stages", cell: (row) => loads.get(row.ipu)?.stages.join(", ") ?? "–" },
        { label: "Bubbles", number: true, value: (row) => loads.get(row.ipu)?.bubble_share ?? 0, cell: (row) => (loads.has(row.ipu) ? formatShare(loads.get(row.ipu).bubble_share) : "–") },
      ] : []),
    ],
  });
  table.element.id = "ipus";
  return table.element;
}

function makePipelineLine(data) {
  const { pipeline } = data.summary;
  if (!pipeline) return null;
  const text = `${countOf(pipeline.ticks.all, "tick")} for ${formatWhole(pipeline.micro_batches)} micro-batches, ${formatShare(pipeline.bubble_share)} bubbles. ${pipeline.slowest.finding} `;
  return make("p", { class: "lead", id: "pipeline-line" }, text, make("a", { href: address.link({ view: "pipeline" }), text: "See the pipeline" }));
}

function makeMeter(share, colour = "accent") {
  return make("span", { class: "meter inline", "aria-hidden": "true" }, make("i", { style: `width: ${Math.min(100, share * 100)}%; background: var(--${colour})` }));
}

// Small charts of the bytes on every tile, all to one scale. A click chooses the IPU.
function makeIpuCharts(data, chosen, change) {
  const { fit } = data.summary;
  const highest = Math.max(...fit.ipus.map((entry) => entry.peak_bytes));
  const withLimit = highest > fit.limit_bytes * 0.5; // as in the large chart: else the limit would leave an empty box
  const top = Math.max(withLimit ? fit.limit_bytes : 0, highest, 1024) * 1.06;
  const totals = data.memory.map((memory) => {
    const always = Float64Array.from(memory.alwaysLive);
    for (const bytes of Object.values(memory.categories)) for (let tile = 0; tile < always.length; tile++) always[tile] += bytes[tile];
    return { always, peak: always.map((bytes, tile) => bytes + memory.peakNotAlwaysLive[tile]) };
  });
  const charts = data.memory.map((memory, place) => {
    const entry = fit.ipus[place];
    const canvas = make("canvas", { "aria-label": `Bytes on the tiles of IPU ${memory.ipu}`, role: "img" });
    const button = make("button", { type: "button", "aria-pressed": String(place === chosen), onclick: () => change(place) },
      make("span", { class: "chart-head" }, make("b", { text: `IPU ${memory.ipu}` }), make("span", { class: entry.fits ? "good" : "bad", text: verdictOf(entry) })),
      canvas, make("span", { class: "chart-note", text: `max ${formatTileBytes(entry.peak_bytes)}, ${formatShare(entry.peak_bytes / fit.limit_bytes)}` }));
    return { button, canvas, ...totals[place] };
  });
  const element = make("div", { class: "charts", role: "group", "aria-label": "All IPUs: choose one", id: "ipu-charts" }, ...charts.map((chart) => chart.button));

  function paintChart({ canvas, always, peak }) {
    const [width, height, density] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
    if (!width) return;
    [canvas.width, canvas.height] = [Math.round(width * density), Math.round(height * density)];
    const context = canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    const columns = [[peak, colourOf("not always live")], [always, colourOf("always live")]];
    for (let pixel = 0; pixel < width; pixel++) {
      const start = Math.floor((pixel / width) * peak.length);
      const stop = Math.max(start + 1, Math.floor(((pixel + 1) / width) * peak.length));
      let fullest = start;
      for (let tile = start; tile < stop; tile++) if (peak[tile] > peak[fullest]) fullest = tile;
      for (const [bytes, colour] of columns) {
        context.fillStyle = colour;
        const size = (bytes[fullest] / top) * height;
        const [x, end] = [pixel, pixel + 1].map((place) => Math.round(place * density) / density);
        context.fillRect(x, height - size, end - x, size);
      }
    }
    if (!withLimit) return;
    context.fillStyle = themeColour("limit");
    context.fillRect(0, height - (fit.limit_bytes / top) * height, width, 1.5);
  }
  const paint = () => charts.forEach(paintChart);
  const observer = new ResizeObserver(paint);
  observer.observe(element);
  return { element, paint, close: () => observer.disconnect(), mark: (place) => charts.forEach((chart, index) => chart.button.setAttribute("aria-pressed", index === place)) };
}
