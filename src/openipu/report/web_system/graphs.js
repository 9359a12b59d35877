// Rows of numbers over time: lines, and histograms as columns of a heatmap.

function drawSeries(lanes, pen, width, row) {
  const values = row.lines.flatMap((line) => [...line.value]);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const span = high - low || 1;
  const y = (value) => row.top + row.height - 6 - ((value - low) / span) * (row.height - 14);
  row.lines.forEach((line, index) => {
    pen.strokeStyle = lanes.read(`--u-${index % 6}`);
    pen.lineWidth = 1.5;
    pen.beginPath();
    const first = Math.max(0, findPlace(line.time.length, (at) => line.time[at], lanes.from) - 1);
    for (let at = first; at < line.time.length; at++) {
      const x = (line.time[at] - lanes.from) * lanes.scale;
      pen.lineTo(x, y(line.value[at]));
      if (line.time[at] > lanes.to) break;
    }
    pen.stroke();
    pen.lineWidth = 1;
    pen.fillStyle = pen.strokeStyle;
    pen.fillText(line.label, 6 + index * 130, row.top + 9);
  });
  pen.fillStyle = lanes.read("--muted");
  pen.textAlign = "right";
  pen.fillText(high.toPrecision(4), width - 4, row.top + 9);
  pen.fillText(low.toPrecision(4), width - 4, row.top + row.height - 8);
  pen.textAlign = "left";
}

function drawHeatmap(lanes, pen, width, row) {
  const { time, counts, edges } = row.map;
  const bins = edges.length - 1;
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const tall = (row.height - 4) / bins;
  pen.fillStyle = lanes.read("--accent");
  for (let at = 0; at < time.length; at++) {
    const x = (time[at] - lanes.from) * lanes.scale;
    const next = at + 1 < time.length ? (time[at + 1] - lanes.from) * lanes.scale : x + 12;
    if (next < 0 || x > width) continue;
    for (let bin = 0; bin < bins; bin++) {
      const count = counts[at * bins + bin];
      if (!count) continue;
      pen.globalAlpha = 0.15 + (0.85 * Math.log1p(count)) / Math.log1p(most);
      pen.fillRect(x, row.top + row.height - 2 - (bin + 1) * tall, Math.max(1, next - x), tall);
    }
  }
  pen.globalAlpha = 1;
  pen.fillStyle = lanes.read("--muted");
  pen.textAlign = "right";
  pen.fillText(String(Number(edges.at(-1).toPrecision(4))), width - 4, row.top + 9);
  pen.fillText(String(Number(edges[0].toPrecision(4))), width - 4, row.top + row.height - 8);
  pen.textAlign = "left";
}
