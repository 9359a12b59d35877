// What the tiles of an IPU do in one step: how many work, which one all others wait for, and how long each takes.

// Mean of all tiles over the busiest: 1 if no tile idles. Where a step's tiles all take as long, what counts is how many there are.
function balanceOf(data, step) {
  const { balance, tiles } = data.steps;
  return balance[step] >= 0 ? balance[step] : Math.min(1, tiles[step] / data.tiles);
}

// {cycles(tile), busiest, most, mean, working}: of one execution.
function measureTiles(data, step) {
  const { steps } = data;
  const own = data.tileCycles(step);
  if (!own) {
    const [first, count, cycles] = [Math.max(0, steps.first_tile[step]), Math.min(data.tiles, steps.tiles[step]), steps.cycles[step] / Math.max(1, steps.repeats[step])];
    return { cycles: (tile) => ((tile - first + data.tiles) % data.tiles < count ? cycles : 0), busiest: -1, most: count ? cycles : 0, mean: (cycles * count) / data.tiles, working: count };
  }
  let [busiest, sum, working] = [0, 0, 0];
  own.forEach((cycles, tile) => {
    if (cycles > own[busiest]) busiest = tile;
    if (cycles) working += 1;
    sum += cycles;
  });
  return { cycles: (tile) => own[tile], busiest, most: own[busiest], mean: sum / data.tiles, working };
}

function listBalance(data, step) {
  const found = measureTiles(data, step);
  if (!found.working) return [];
  const idle = data.tiles - found.working;
  return [
    ["Tiles at work", `${formatWhole(found.working)} of ${formatWhole(data.tiles)}, ${idle ? `${formatWhole(idle)} idle` : "none idle"}`],
    ["Busiest tile", found.busiest < 0 ? "all of them take as long" : make("a", { href: address.link({ view: "memory", tile: found.busiest, ...(data.memory.length > 1 ? { ipu: data.memory.findIndex((entry) => entry.ipu === data.steps.ipu[step]) } : {}) }), text: `tile ${formatWhole(found.busiest)}, ${formatWhole(found.most)} cycles` })],
    ["Mean of all tiles", `${formatWhole(found.mean)} cycles`],
    ["Tile balance", formatShare(balanceOf(data, step))],
  ];
}

// Cycles of each tile in one execution of the step, as columns.
function makeBalanceChart(data, step) {
  const found = measureTiles(data, step);
  if (!found.working || !found.most) return null;
  const totals = Float64Array.from({ length: data.tiles }, (_, tile) => found.cycles(tile));
  const plot = new Plot({
    label: `Cycles of each of ${data.tiles} tiles in step ${step}: ${formatWhole(found.working)} work, ${formatWhole(data.tiles - found.working)} idle.`,
    name: `tiles of step ${step}`,
    height: () => 132,
    margins: { left: 40, right: 8, top: 16, bottom: 26 },
    from: 0, to: data.tiles, minimumSpan: Math.min(8, data.tiles), tickStep: 1,
    draw: (context, view) => {
      const top = found.most * 1.12;
      const colour = colourOf(data.steps.text("kind", step));
      drawColumns(view, data.tiles, totals, (tile, x, width) => {
        const y = view.toHeight(totals[tile], top);
        context.fillStyle = colour;
        if (totals[tile]) context.fillRect(x, y, width, view.toHeight(0, top) - y);
      });
      const y = Math.round(view.toHeight(found.mean, top)) + 0.5;
      context.strokeStyle = themeColour("ink");
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(view.margins.left, y);
      context.lineTo(view.width - view.margins.right, y);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = themeColour("ink");
      context.textAlign = "left";
      drawLabel(context, `busiest ${formatWhole(found.most)} cycles`, view.margins.left + 4, view.toHeight(found.most, top) - 7);
      if (found.mean < found.most * 0.8) drawLabel(context, `mean ${formatWhole(found.mean)}`, view.margins.left + 4, y - 8);
      view.drawBottomAxis(context, formatWhole, "tile");
    },
    hover: (x) => {
      const tile = Math.floor(plot.toValue(x));
      return x < plot.margins.left || tile < 0 || tile >= data.tiles ? null : [`Tile ${tile}`, [totals[tile] ? "works for" : "idles", totals[tile] ? `${formatWhole(totals[tile])} cycles` : ""], ["of the busiest", formatShare(totals[tile] / found.most)]];
    },
    pick: (x) => {
      const tile = Math.floor(plot.toValue(x));
      if (x >= plot.margins.left && tile >= 0 && tile < data.tiles) location.hash = address.link({ view: "memory", tile, ...(data.memory.length > 1 ? { ipu: data.memory.findIndex((entry) => entry.ipu === data.steps.ipu[step]) } : {}) });
    },
  });
  plot.element.id = "tile-balance";
  return plot;
}
