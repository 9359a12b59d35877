// All tiles of an IPU as a map, coloured by how full they are or by what one variable takes. Tiles stand in order of their
// numbers, a row of 64 each: the map shows neighbours by number, not places on silicon.

const PLAN_ROW = 64;
const PLAN_COLOURS = [[0, [226, 238, 249]], [0.45, [92, 155, 213]], [0.8, [31, 92, 158]], [1, [16, 42, 82]]];
const PLAN_OVER = [[1, [226, 146, 43]], [1.25, [208, 54, 79]], [2, [120, 12, 40]]];

// From empty to full in blue; beyond the limit from orange to red.
function colourShare(share) {
  const scale = share > 1 ? PLAN_OVER : PLAN_COLOURS;
  const high = scale.findIndex(([at]) => at >= share);
  if (high < 0) return `rgb(${scale.at(-1)[1]})`;
  if (!high) return `rgb(${scale[0][1]})`;
  const [[from, low], [to, top]] = [scale[high - 1], scale[high]];
  return `rgb(${low.map((value, place) => Math.round(value + ((top[place] - value) * (share - from)) / (to - from)))})`;
}

// settings: label, count, value(tile) -> bytes, full() -> bytes of a full tile, chosen() -> tiles, pick(tile, add), hover(tile)
class FloorPlan {
  constructor(settings) {
    this.settings = settings;
    this.canvas = make("canvas", { class: "plan-canvas", tabindex: "0", role: "application", "aria-label": settings.label });
    this.element = make("div", { class: "plot-holder" }, this.makeScale(), this.canvas);
    this.saves = makeImageButtons("floor plan", (context) => this.drawOn(context), () => [Math.ceil(this.cell * PLAN_ROW), this.height]);
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.element);
    this.canvas.addEventListener("click", (event) => {
      const tile = this.tileAt(event);
      if (tile !== null) settings.pick(tile, event.shiftKey || event.ctrlKey || event.metaKey);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const tile = this.tileAt(event);
      if (tile === null) tip.hide();
      else tip.show(settings.hover(tile), event.clientX, event.clientY);
    });
    this.canvas.addEventListener("pointerleave", () => tip.hide());
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -PLAN_ROW, ArrowDown: PLAN_ROW }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (settings.chosen().at(-1) ?? 0) + step;
      if (next >= 0 && next < settings.count) settings.pick(next, event.shiftKey);
    });
  }

  makeScale() {
    const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => `${colourShare(share)} ${share * 75}%`);
    const over = [1.001, 1.25, 2].map((share, place) => `${colourShare(share)} ${75 + place * 12.5}%`);
    return make("div", { class: "scale" }, make("span", { text: "empty" }), make("i", { style: `background: linear-gradient(90deg, ${[...stops, ...over].join(", ")})` }), make("span", { text: "full, then over" }));
  }

  tileAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.cell);
    const tile = Math.floor((event.clientY - box.top) / this.cell) * PLAN_ROW + column;
    return column >= 0 && column < PLAN_ROW && tile >= 0 && tile < this.settings.count ? tile : null;
  }

  paint() {
    const width = this.element.clientWidth;
    if (!width) return;
    const density = devicePixelRatio || 1;
    // Whole pixels of the screen, where there are several: tiles of broken sizes would make a pattern of their own.
    const room = Math.min(22, width / PLAN_ROW) * density;
    this.cell = (room >= 3 ? Math.floor(room) : room) / density;
    const height = Math.ceil(this.settings.count / PLAN_ROW) * this.cell;
    this.height = height;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    this.drawOn(context);
  }

  drawOn(context) {
    const { count, value, full, chosen } = this.settings;
    const gap = this.cell > 7 ? 1 : 0;
    const most = full();
    for (let tile = 0; tile < count; tile++) {
      const bytes = value(tile);
      context.fillStyle = bytes ? colourShare(bytes / most) : themeColourOnce(this, "line");
      context.fillRect((tile % PLAN_ROW) * this.cell, Math.floor(tile / PLAN_ROW) * this.cell, this.cell - gap, this.cell - gap);
    }
    for (const [colour, lineWidth] of [[themeColour("panel"), 5], [themeColour("ink"), 2]]) {
      Object.assign(context, { strokeStyle: colour, lineWidth });
      for (const tile of chosen()) context.strokeRect((tile % PLAN_ROW) * this.cell, Math.floor(tile / PLAN_ROW) * this.cell, this.cell - gap, this.cell - gap);
    }
    this.plain = null;
  }

  close() {
    this.observer.disconnect();
    tip.hide();
  }
}

// Asking for a colour of the style costs too much to do for every tile.
function themeColourOnce(holder, name) {
  return (holder.plain ??= themeColour(name));
}
