// Draws the rows between two moments, and turns wheel, drag, click and keys into moves.

class Lanes {
  // The pinned rows have a canvas of their own, which stays in sight above the others.
  constructor(canvas, pinnedCanvas, overview, data, colours) {
    this.panes = [canvas, pinnedCanvas].map((own) => ({ canvas: own, rows: [], height: 0 }));
    this.canvas = canvas;
    this.overview = overview;
    this.data = data;
    this.colours = colours;
    this.from = 0;
    this.to = data.span;
    this.selected = null; // {thread, place}
    this.isMatch = null; // set by the search: (thread, place) -> boolean
    this.frame = 0;
    this.onMove = () => {};
    this.onSelect = () => {};
    this.listen();
    new ResizeObserver(() => this.ask()).observe(canvas.parentElement);
  }

  get rows() {
    return this.panes[0].rows;
  }

  setRows(laid, pinned) {
    [laid, pinned].forEach(({ rows, height }, place) => {
      Object.assign(this.panes[place], { rows, height });
      this.panes[place].canvas.style.height = `${height}px`;
    });
    this.ask();
  }

  ask() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  show(from, to) {
    const least = 0.02; // microseconds: clocks tick in nanoseconds
    const width = Math.min(Math.max(to - from, least), this.data.span);
    const begin = Math.min(Math.max(0, from), this.data.span - width);
    this.from = begin;
    this.to = begin + width;
    this.ask();
    this.onMove();
  }

  zoom(factor, centre = (this.from + this.to) / 2) {
    this.show(centre - (centre - this.from) * factor, centre + (this.to - centre) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  prepare(canvas, height) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    return { pen, width };
  }

  draw() {
    const style = getComputedStyle(document.documentElement);
    this.read = (name) => style.getPropertyValue(name).trim();
    this.paint = new Map([...this.colours].map(([channel, name]) => [channel, this.read(name)]));
    this.scale = this.canvas.clientWidth / (this.to - this.from);
    for (const pane of this.panes) {
      if (!pane.canvas.clientWidth) continue;
      const { pen, width } = this.prepare(pane.canvas, pane.height);
      this.drawPane(pen, width, pane);
    }
    this.drawOverview();
  }

  drawPane(pen, width, pane) {
    this.drawAxis(pen, width, pane.height);
    for (const row of pane.rows) {
      if (row.kind === "head") {
        pen.fillStyle = this.read("--paper");
        pen.fillRect(0, row.top, width, row.height);
      } else if (row.kind === "events") this.drawEvents(pen, width, row);
      else if (row.kind === "series") drawSeries(this, pen, width, row);
      else drawHeatmap(this, pen, width, row);
    }
  }

  drawAxis(pen, width, height) {
    const rough = (this.to - this.from) / Math.max(2, width / 120);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    pen.fillStyle = this.read("--muted");
    pen.strokeStyle = this.read("--line");
    pen.beginPath();
    for (let tick = Math.ceil(this.from / step) * step; tick <= this.to; tick += step) {
      const x = Math.round((tick - this.from) * this.scale) + 0.5;
      pen.moveTo(x, AXIS - 4);
      pen.lineTo(x, height);
      pen.fillText(formatTick(tick, step), x + 4, AXIS / 2);
    }
    pen.stroke();
  }

  drawEvents(pen, width, row) {
    const { thread, events } = row;
    const { start, duration, channel, label } = thread;
    const first = findPlace(events.length, (at) => start[events[at]] + Math.max(0, duration[events[at]]), this.from);
    for (let at = first; at < events.length; at++) {
      const place = events[at];
      if (start[place] > this.to) break;
      const x = (start[place] - this.from) * this.scale;
      const long = Math.max(0, duration[place]) * this.scale;
      const faded = this.isMatch && !this.isMatch(thread, place);
      pen.globalAlpha = faded ? 0.2 : 1;
      pen.fillStyle = this.paint.get(channel[place]);
      if (duration[place] < 0) drawFlag(pen, x, row);
      else {
        const left = Math.max(x, -1);
        const wide = Math.max(Math.min(x + long, width + 1) - left, 1);
        pen.fillRect(left, row.top + 1, Math.max(wide - (wide > 3 ? 1 : 0), 1), row.height - 2);
        if (wide > 34) this.drawLabel(pen, this.data.names[label[place]], left + 4, row, wide - 8);
      }
      if (this.selected?.thread === thread && this.selected.place === place) {
        pen.strokeStyle = this.read("--ink");
        pen.lineWidth = 2;
        pen.strokeRect(Math.max(x, 0), row.top + 1, Math.max(long, 3), row.height - 2);
        pen.lineWidth = 1;
      }
      // Below a pixel: go on with the last event that begins in it. Events of a row do not overlap, so only that one can be long.
      if (long < 1 && !this.isMatch && duration[place] >= 0) {
        const next = this.from + (Math.floor(x) + 1) / this.scale;
        at = Math.max(at, at + findPlace(events.length - at, (offset) => start[events[at + offset]], next) - 2);
      }
    }
    pen.globalAlpha = 1;
  }

  drawLabel(pen, text, x, row, wide) {
    pen.save();
    pen.beginPath();
    pen.rect(x, row.top, wide, row.height);
    pen.clip();
    pen.fillStyle = "#fff";
    pen.fillText(text.length > 200 ? text.slice(0, 200) : text, x, row.top + row.height / 2 + 0.5);
    pen.restore();
  }

  drawOverview() {
    const { pen, width } = this.prepare(this.overview, 42);
    const scale = width / this.data.span;
    const threads = this.data.processes.flatMap((process) => process.threads);
    const tall = Math.max(2, 38 / Math.max(1, threads.length));
    threads.forEach((thread, index) => {
      const columns = new Int32Array(Math.ceil(width)).fill(-1); // the deepest event of each pixel
      const depths = new Int32Array(columns.length).fill(-1);
      const stride = Math.max(1, Math.floor(thread.length / 200000));
      for (let place = 0; place < thread.length; place += stride) {
        if (thread.duration[place] < 0) continue;
        const last = Math.min(columns.length - 1, Math.floor((thread.start[place] + thread.duration[place]) * scale));
        for (let x = Math.floor(thread.start[place] * scale); x <= last; x++) {
          if (thread.depth[place] >= depths[x]) {
            depths[x] = thread.depth[place];
            columns[x] = thread.channel[place];
          }
        }
      }
      columns.forEach((channel, x) => {
        if (channel < 0) return;
        pen.fillStyle = this.paint.get(channel);
        pen.fillRect(x, 2 + index * tall, 1, Math.max(1, tall - 1));
      });
    });
    const left = this.from * scale;
    const right = this.to * scale;
    pen.fillStyle = this.read("--paper");
    pen.globalAlpha = 0.72;
    pen.fillRect(0, 0, left, 42);
    pen.fillRect(right, 0, width - right, 42);
    pen.globalAlpha = 1;
    pen.strokeStyle = this.read("--accent");
    pen.strokeRect(Math.min(left, width - 3) + 0.5, 0.5, Math.max(right - left - 1, 2), 41);
  }

  find(x, y, pane = this.panes[0]) {
    const row = pane.rows.find((entry) => y >= entry.top && y < entry.top + entry.height);
    if (row?.kind !== "events") return null;
    const { start, duration } = row.thread;
    const moment = this.from + x / this.scale;
    const slack = 3 / this.scale;
    let at = findPlace(row.events.length, (place) => start[row.events[place]], moment + slack) - 1;
    for (let tries = 0; at >= 0 && tries < 4; at--, tries++) {
      const place = row.events[at];
      if (moment <= start[place] + Math.max(0, duration[place]) + slack) return { thread: row.thread, place, row };
    }
    return null;
  }

  select(found) {
    this.selected = found;
    this.ask();
    this.onSelect(found);
  }

  step(by) {
    const row = this.rows.find((entry) => entry.kind === "events" && entry.thread === this.selected?.thread && entry.events.includes(this.selected.place))
      ?? this.rows.find((entry) => entry.kind === "events" && entry.events.length);
    if (!row) return;
    const at = this.selected ? row.events.indexOf(this.selected.place) + by : 0;
    const place = row.events[Math.min(Math.max(at, 0), row.events.length - 1)];
    this.select({ thread: row.thread, place });
    this.reveal(row.thread, place);
  }

  // Bring an event into view without changing the zoom where that is possible.
  reveal(thread, place) {
    const begin = thread.start[place];
    const end = begin + Math.max(0, thread.duration[place]);
    const width = this.to - this.from;
    if (begin >= this.from && end <= this.to && (end - begin) * this.scale >= 2) return;
    if ((end - begin) * this.scale < 2 || end - begin > width) this.focus(thread, place);
    else this.show((begin + end - width) / 2, (begin + end + width) / 2);
  }

  focus(thread, place) {
    const wide = Math.max(thread.duration[place], 1);
    this.show(thread.start[place] - wide * 0.6, thread.start[place] + wide * 1.6);
  }

  listen() {
    for (const pane of this.panes) listenToLanes(this, pane);
    listenToOverview(this);
  }
}

function drawFlag(pen, x, row) {
  pen.fillRect(x - 0.5, row.top + 2, 1.5, row.height - 4);
  pen.beginPath();
  pen.moveTo(x, row.top + 2);
  pen.lineTo(x + 8, row.top + 6);
  pen.lineTo(x, row.top + 10);
  pen.fill();
}
