// Elements, number formats, colours, the tooltip, the address of a view, and the theme.

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const wholeNumber = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function trimNumber(value) {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return wholeNumber.format(value);
  return value.toFixed(size >= 10 ? 1 : 2);
}

function formatBytes(bytes) {
  const size = Math.abs(bytes);
  if (size >= 2 ** 30) return `${trimNumber(bytes / 2 ** 30)} GiB`;
  if (size >= 2 ** 20) return `${trimNumber(bytes / 2 ** 20)} MiB`;
  if (size >= 2 ** 10) return `${trimNumber(bytes / 2 ** 10)} KiB`;
  return `${wholeNumber.format(bytes)} B`;
}

// What a tile needs and has is always in KiB, so that two figures can be held against each other.
const formatTileBytes = (bytes) => `${trimNumber(bytes / 2 ** 10)} KiB`;
// Kinds of code have names of their own in profile.pop and libpva; here they have plain words.
const CODE_NAMES = { vertexCode: "vertex code", vertexInstanceState: "vertex state", internalExchangeCode: "exchange code", hostExchangeCode: "host exchange code", globalExchangeCode: "code for copies between IPUs", controlCode: "control code" };
const nameMemory = (name) => CODE_NAMES[name] ?? name;
const formatWhole = (value) => wholeNumber.format(value);

function formatTime(microseconds) {
  if (microseconds >= 1e6) return `${trimNumber(microseconds / 1e6)} s`;
  if (microseconds >= 1e3) return `${trimNumber(microseconds / 1e3)} ms`;
  if (microseconds >= 1 || microseconds === 0) return `${trimNumber(microseconds)} µs`;
  return `${trimNumber(microseconds * 1e3)} ns`;
}

function formatShare(share) {
  if (!share) return "0 %";
  if (share > 0 && share < 0.0005) return "<0.1 %";
  return `${(share * 100).toFixed(1)} %`;
}

function formatRate(perSecond) {
  const units = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of units) if (perSecond >= size) return `${trimNumber(perSecond / size)} ${letter}FLOP/s`;
  return `${trimNumber(perSecond)} FLOP/s`;
}

function shortenText(text, most = 120) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// "/home/ada/model.py:12 in forward" -> "model.py:12": the whole text stands in the title of the cell.
function shortenLine(line) {
  const place = line.split(" in ")[0];
  return place.slice(Math.max(place.lastIndexOf("/"), place.lastIndexOf("\\")) + 1);
}

const shortenOp = (op) => op.replace(/^aten\./, "").replace(/\.default$/, "");

function colourOf(name) {
  const style = getComputedStyle(document.documentElement);
  const slug = name.toLowerCase().replaceAll(" ", "-");
  return style.getPropertyValue(`--c-${slug}`).trim() || style.getPropertyValue("--c-other").trim();
}

const themeColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function makeSwatch(name) {
  return make("span", { class: "swatch", style: `background: ${colourOf(name)}`, "data-colour": name });
}

// A name that may break after its dots, underlines, slashes and colons, or else after 30 letters. A very long one is cut.
function makePath(text) {
  const path = make("span", { class: "path", title: text.length > 300 ? shortenText(text, 2000) : undefined });
  for (const part of shortenText(text, 300).split(/(?<=[._/:])/u)) for (const piece of part.match(/.{1,30}/gsu) ?? []) path.append(piece, make("wbr"));
  return path;
}

const tip = {
  element: null,
  show(rows, x, y) {
    this.element ??= document.getElementById("tip");
    this.element.replaceChildren(
      ...rows.map((row) =>
        Array.isArray(row)
          ? make("div", { class: "tip-row" }, row[2] ? makeSwatch(row[2]) : null, make("span", { text: row[0] }), make("b", { text: row[1] }))
          : make("div", { class: "tip-head", text: row }),
      ),
    );
    this.element.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = x + 16 + width > innerWidth ? x - width - 12 : x + 16;
    this.element.style.left = `${Math.max(4, left)}px`;
    this.element.style.top = `${Math.max(4, Math.min(y + 16, innerHeight - height - 4))}px`;
  },
  hide() {
    if (this.element) this.element.hidden = true;
  },
};

function announce(text) {
  document.getElementById("live").textContent = text;
}

const address = {
  read() {
    return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  },
  // Which of two reports is shown stays as it is, unless a link says otherwise.
  link(parameters) {
    const { report } = this.read();
    return `#${new URLSearchParams({ ...(report ? { report } : {}), ...parameters })}`;
  },
  // Changes of a selection replace the address, so that "back" leads to the view before and not through every click.
  note(changes) {
    const parameters = { ...this.read(), ...changes };
    for (const [name, value] of Object.entries(parameters)) if (value === null || value === "") delete parameters[name];
    history.replaceState(null, "", this.link(parameters));
  },
};

// The theme of the system, until the reader chooses one.
const theme = {
  stored: "openipu-theme",
  chosen: null,
  isDark() {
    return document.documentElement.dataset.theme === "dark";
  },
  start(button, repaint) {
    const system = matchMedia("(prefers-color-scheme: dark)");
    try {
      this.chosen = localStorage.getItem(this.stored);
    } catch {
      // A browser may refuse storage to files: the theme is then not remembered.
    }
    const apply = () => {
      document.documentElement.dataset.theme = this.chosen ?? (system.matches ? "dark" : "light");
      button.textContent = this.isDark() ? "Light theme" : "Dark theme";
      for (const swatch of document.querySelectorAll("[data-colour]")) swatch.style.background = colourOf(swatch.dataset.colour);
      repaint();
    };
    button.addEventListener("click", () => {
      this.chosen = this.isDark() ? "light" : "dark";
      try {
        localStorage.setItem(this.stored, this.chosen);
      } catch {
        // As above.
      }
      apply();
    });
    system.addEventListener("change", apply);
    apply();
  },
};
