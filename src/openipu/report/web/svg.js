// What is drawn on a canvas, as an SVG: the part of the canvas's interface that the charts use.

const escapeXml = (text) => String(text).replaceAll(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`).replaceAll(/[\p{Cc}\p{Cs}\ufffe\uffff]/gu, "\ufffd");
const roundPlace = (value) => String(Math.round(value * 100) / 100);

class SvgContext {
  constructor(width, height, ground) {
    Object.assign(this, { width, height, parts: [], path: "", clips: 0, stack: [], dash: [] });
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic", lineJoin: "miter" });
    this.ruler = document.createElement("canvas").getContext("2d");
    this.ink = new Map(); // a colour that only CSS can mix -> what it comes to
    this.add("rect", { x: 0, y: 0, width, height, fill: ground });
  }

  add(tag, attributes, text = null) {
    const own = { ...attributes, ...(this.globalAlpha < 1 ? { opacity: roundPlace(this.globalAlpha) } : {}) };
    const written = Object.entries(own).map(([name, value]) => ` ${name}="${typeof value === "number" ? roundPlace(value) : escapeXml(value)}"`).join("");
    this.parts.push(text === null ? `<${tag}${written}/>` : `<${tag}${written}>${escapeXml(text)}</${tag}>`);
  }

  // Programs that draw SVG know plain colours alone.
  plain(colour) {
    if (!String(colour).includes("(")) return colour;
    if (!this.ink.has(colour)) {
      this.ruler.clearRect(0, 0, 1, 1);
      this.ruler.fillStyle = colour;
      this.ruler.fillRect(0, 0, 1, 1);
      const [red, green, blue] = this.ruler.getImageData(0, 0, 1, 1).data;
      this.ink.set(colour, `rgb(${red},${green},${blue})`);
    }
    return this.ink.get(colour);
  }
  get strokes() {
    return { fill: "none", stroke: this.plain(this.strokeStyle), "stroke-width": this.lineWidth, "stroke-linejoin": this.lineJoin, ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}) };
  }

  setLineDash(dash) {
    this.dash = dash;
  }
  save() {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, lineJoin, dash, clips } = this;
    this.stack.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, textBaseline, lineJoin, dash, clips });
  }
  restore() {
    const before = this.stack.pop();
    for (; this.clips > before.clips; this.clips--) this.parts.push("</svg>");
    Object.assign(this, before);
  }

  fillRect(x, y, width, height) {
    if (width > 0 && height > 0) this.add("rect", { x, y, width, height, fill: this.plain(this.fillStyle) });
  }
  strokeRect(x, y, width, height) {
    this.add("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), ...this.strokes });
  }
  beginPath() {
    this.path = "";
  }
  moveTo(x, y) {
    this.path += `M${roundPlace(x)} ${roundPlace(y)}`;
  }
  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${roundPlace(x)} ${roundPlace(y)}`;
  }
  bezierCurveTo(...places) {
    this.path += `C${places.map(roundPlace).join(" ")}`;
  }
  rect(x, y, width, height) {
    this.box = [x, y, Math.max(0, width), Math.max(0, height)];
    this.path += `M${roundPlace(x)} ${roundPlace(y)}h${roundPlace(width)}v${roundPlace(height)}h${roundPlace(-width)}z`;
  }
  // Clips are rectangles, until what was saved is restored: an SVG inside the SVG shows no more than itself.
  clip() {
    const [x, y, width, height] = this.box.map(roundPlace);
    this.clips += 1;
    this.parts.push(`<svg x="${x}" y="${y}" width="${width}" height="${height}" viewBox="${x} ${y} ${width} ${height}">`);
  }
  stroke() {
    if (this.path) this.add("path", { d: this.path, ...this.strokes });
  }
  fill() {
    if (this.path) this.add("path", { d: this.path, fill: this.plain(this.fillStyle) });
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
  placeText(text, x, y, look) {
    const [, size, family] = /(\d+(?:\.\d+)?)px (.*)/.exec(this.font) ?? [null, "12", "sans-serif"];
    const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
    this.add("text", { x, y, "font-size": Number(size), "font-family": family, "text-anchor": anchor, ...(this.textBaseline === "middle" ? { dy: "0.35em" } : {}), ...look }, text);
  }
  fillText(text, x, y) {
    this.placeText(text, x, y, { fill: this.plain(this.fillStyle) });
  }
  strokeText(text, x, y) {
    this.placeText(text, x, y, this.strokes);
  }

  write() {
    // The name of the format is an address; asking the browser for it keeps addresses out of the page.
    const holder = document.createElement("div");
    holder.innerHTML = "<svg></svg>";
    return `<svg xmlns="${holder.firstChild.namespaceURI}" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}">\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
