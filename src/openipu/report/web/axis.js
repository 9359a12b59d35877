// A canvas with a horizontal axis that zooms and pans by wheel, pinch, drag, keys and buttons.

function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

// Ticks of bytes fall on round KiB, MiB or GiB, not on round numbers of bytes.
function chooseByteUnit(top) {
  return [[2 ** 30, "GiB"], [2 ** 20, "MiB"]].find(([size]) => top >= size) ?? [2 ** 10, "KiB"];
}

// Times of an axis are all in one unit, that of the longest.
function chooseTimeUnit(microseconds) {
  return [[1e6, "s"], [1e3, "ms"], [1, "µs"]].find(([size]) => microseconds >= size) ?? [1e-3, "ns"];
}

const WHEEL_HINT = "The wheel or a pinch zooms, as do + and −; with everything in view the wheel scrolls the page.";

// settings: label, name (of a saved image), role, height(width), from, to, minimumSpan, margins, draw(context, plot),
// hover(x, y) -> rows, pick(x, y, event), move(direction) for the arrow keys (else they pan),
// select(range) for a drag with Shift
class Plot {
  constructor(settings) {
    this.settings = settings;
    this.margins = { left: 66, right: 14, top: 18, bottom: 30, ...settings.margins };
    this.range = [settings.from, settings.to];
    this.canvas = make("canvas", { class: "plot", tabindex: "0", role: settings.role ?? "img", "aria-label": settings.label });
    const button = (text, label, act) => make("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick: act, text });
    this.tools = make(
      "div",
      { class: "tools", role: "group", "aria-label": "Zoom" },
      button("−", "Zoom out", () => this.zoom(2)),
      button("+", "Zoom in", () => this.zoom(0.5)),
      button("Reset", "Show everything", () => this.show(settings.from, settings.to)),
    );
    this.saves = makeImageButtons(settings.name, (context) => this.drawOn(context), () => [this.width, this.height]);
    this.element = make("div", { class: "plot-holder" }, this.canvas);
    this.pointers = new Map();
    this.listen();
    this.observer = new ResizeObserver(() => this.paintNow());
    this.observer.observe(this.element);
  }

  get plotWidth() {
    return Math.max(10, this.width - this.margins.left - this.margins.right);
  }
  get plotHeight() {
    return Math.max(10, this.height - this.margins.top - this.margins.bottom);
  }
  toPixel(value) {
    return this.margins.left + ((value - this.range[0]) / (this.range[1] - this.range[0])) * this.plotWidth;
  }
  toValue(pixel) {
    return this.range[0] + ((pixel - this.margins.left) / this.plotWidth) * (this.range[1] - this.range[0]);
  }

  // To the next border of a pixel of the screen: columns with broken borders would make a pattern of their own.
  snap = (x) => Math.round(x * (this.density ?? 1)) / (this.density ?? 1);

  get isWhole() {
    return this.range[1] - this.range[0] >= (this.settings.to - this.settings.from) * 0.9999;
  }

  show(from, to) {
    const { from: first, to: last, minimumSpan } = this.settings;
    const span = Math.min(last - first, Math.max(minimumSpan, to - from));
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(first, middle - span / 2), last - span);
    this.range = [start, start + span];
    this.settings.onRange?.(this.range);
    this.paint();
  }
  zoom(factor, centre = (this.range[0] + this.range[1]) / 2) {
    const [from, to] = this.range;
    const { from: first, to: last, minimumSpan } = this.settings;
    const span = Math.min(last - first, Math.max(minimumSpan, (to - from) * factor));
    const start = centre - ((centre - from) / (to - from)) * span;
    this.show(start, start + span);
  }
  pan(distance) {
    this.show(this.range[0] + distance, this.range[1] + distance);
  }

  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => this.paintNow());
  }
  paintNow() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const width = this.element.clientWidth;
    if (!width) return;
    const height = this.settings.height(width);
    const density = devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.canvas.style.height = `${height}px`;
    this.density = density;
    const context = this.canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    this.drawOn(context);
  }
  drawOn(context) {
    context.font = `12px ${themeColour("font")}`;
    context.textBaseline = "middle";
    this.settings.draw(context, this);
  }

  // The caption stands left of the ticks; without one the format names the unit.
  drawBottomAxis(context, format, caption = "") {
    const { left, bottom } = this.margins;
    const base = this.height - bottom;
    const step = Math.max(this.settings.tickStep ?? 0, niceStep(this.range[1] - this.range[0], this.plotWidth / 110));
    context.strokeStyle = themeColour("line-strong");
    context.fillStyle = themeColour("muted");
    context.textAlign = "center";
    context.beginPath();
    for (let value = Math.ceil(this.range[0] / step) * step; value <= this.range[1]; value += step) {
      const x = this.toPixel(value);
      context.moveTo(x, base);
      context.lineTo(x, base + 4);
      const text = format(value);
      const half = context.measureText(text).width / 2;
      if (x + half < this.width) context.fillText(text, Math.max(x, half + 2), base + 14);
    }
    context.moveTo(left, base);
    context.lineTo(this.width - this.margins.right, base);
    context.stroke();
    context.textAlign = "left";
    context.fillText(caption, 8, base + 14);
  }

  drawByteAxis(context, top, wanted = null) {
    const [unit, name] = wanted === "KiB" ? [2 ** 10, wanted] : chooseByteUnit(top);
    this.canvas.dataset.top = Math.round(top);
    const step = niceStep(top / unit, Math.max(2, this.plotHeight / 52));
    context.strokeStyle = themeColour("line");
    context.fillStyle = themeColour("muted");
    context.textAlign = "right";
    context.lineWidth = 1;
    context.beginPath();
    for (let tick = 0; tick * step * unit <= top; tick++) {
      const y = Math.round(this.toHeight(tick * step * unit, top)) + 0.5;
      context.moveTo(this.margins.left, y);
      context.lineTo(this.width - this.margins.right, y);
      context.fillText(tick ? `${wholeNumber.format(tick * step) === "0" || step < 1 ? (tick * step).toFixed(1) : wholeNumber.format(tick * step)} ${name}` : "0", this.margins.left - 7, y);
    }
    context.stroke();
  }
  toHeight(bytes, top) {
    return this.height - this.margins.bottom - (bytes / top) * this.plotHeight;
  }

  listen() {
    const canvas = this.canvas;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener(
      "wheel",
      (event) => {
        const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        if (this.isWhole && !event.ctrlKey && (isSideways || event.deltaY > 0)) return; // nothing to zoom out of: the page scrolls
        event.preventDefault();
        const [x] = place(event);
        if (isSideways) this.pan((event.deltaX / this.plotWidth) * (this.range[1] - this.range[0]));
        else this.zoom(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) * 0.004), this.toValue(x));
        tip.hide();
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
      this.moved = 0;
      this.anchor = event.shiftKey && this.settings.select ? this.toValue(place(event)[0]) : null;
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      const before = this.pointers.get(event.pointerId);
      if (!before) {
        const rows = this.settings.hover(x, y);
        if (rows) tip.show(rows, event.clientX, event.clientY);
        else tip.hide();
        return;
      }
      tip.hide();
      const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, spot]) => spot);
      if (others.length) {
        const [old, now] = [Math.abs(before[0] - others[0][0]), Math.abs(x - others[0][0])];
        if (old > 4 && now > 4) this.zoom(old / now, this.toValue((x + others[0][0]) / 2));
        this.moved = 100;
      } else {
        this.moved += Math.abs(x - before[0]);
        if (this.moved > 4 && this.anchor !== null) this.settings.select([this.anchor, this.toValue(x)].sort((one, other) => one - other));
        else if (this.moved > 4) this.pan((-(x - before[0]) / this.plotWidth) * (this.range[1] - this.range[0]));
      }
      this.pointers.set(event.pointerId, [x, y]);
    });
    const release = (event) => {
      const known = this.pointers.delete(event.pointerId);
      if (known && event.type === "pointerup" && this.moved <= 4) this.settings.pick(...place(event), event);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => tip.hide());
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const span = this.range[1] - this.range[0];
      const arrow = (direction) => (this.settings.move ? this.settings.move(direction * (event.shiftKey ? 10 : 1)) : this.pan(direction * span * 0.1));
      const acts = {
        "+": () => this.zoom(0.5),
        "=": () => this.zoom(0.5),
        "-": () => this.zoom(2),
        0: () => this.show(this.settings.from, this.settings.to),
        ArrowLeft: () => arrow(-1),
        ArrowRight: () => arrow(1),
        PageUp: () => this.pan(-span * 0.9),
        PageDown: () => this.pan(span * 0.9),
        Home: () => this.pan(this.settings.from - this.range[0]),
        End: () => this.pan(this.settings.to - this.range[1]),
        ...(this.settings.select ? { Escape: () => this.settings.select(null) } : {}),
      };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    });
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    tip.hide();
  }
}
