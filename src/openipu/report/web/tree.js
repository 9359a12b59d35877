// A tree of any size that draws only the rows in sight, and answers the keys that trees answer.

const TREE_ROW = 27;

// node: {label, children() -> nodes, hasChildren, cells -> elements, key}. onChoose(node) is called for every choice.
class Tree {
  constructor({ label, roots, onChoose, fillRow }) {
    Object.assign(this, { roots, onChoose, fillRow, open: new Set(), rows: [], chosen: null });
    this.space = make("div", { class: "tree-space", role: "presentation" });
    this.element = make("div", { class: "tree", role: "tree", tabindex: "0", "aria-label": label, onscroll: () => this.paint(), onkeydown: (event) => this.press(event) }, this.space);
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.element);
    this.refresh();
  }

  childrenOf(node) {
    return (node.made ??= node.children?.() ?? []);
  }

  refresh() {
    this.rows = [];
    const visit = (nodes, level) => nodes.forEach((node, place) => {
      this.rows.push({ node, level, place, siblings: nodes.length });
      if (this.open.has(node)) visit(this.childrenOf(node), level + 1);
    });
    visit(this.roots, 1);
    this.space.style.height = `${this.rows.length * TREE_ROW}px`;
    this.paint();
  }

  paint() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / TREE_ROW) - 8);
    const last = Math.min(this.rows.length, first + Math.ceil((this.element.clientHeight || 600) / TREE_ROW) + 16);
    this.space.replaceChildren(...this.rows.slice(first, last).map((row, place) => this.makeRow(row, first + place)));
    const active = this.rows.findIndex((row) => row.node === this.chosen);
    if (active >= first && active < last) this.element.setAttribute("aria-activedescendant", `tree-row-${active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  makeRow({ node, level, place, siblings }, index) {
    const expandable = Boolean(node.hasChildren);
    const isOpen = this.open.has(node);
    return make("div", {
      class: node === this.chosen ? "tree-row chosen" : "tree-row", role: "treeitem", id: `tree-row-${index}`, style: `top: ${index * TREE_ROW}px; padding-left: ${8 + (level - 1) * 18}px`,
      "aria-level": level, "aria-posinset": place + 1, "aria-setsize": siblings, "aria-selected": String(node === this.chosen), "aria-expanded": expandable ? String(isOpen) : null,
      onclick: (event) => (event.target.classList.contains("twist") ? this.toggle(node) : this.choose(node)), ondblclick: () => this.toggle(node),
    }, make("span", { class: "twist", "aria-hidden": "true", text: expandable ? (isOpen ? "▾" : "▸") : "" }), ...this.fillRow(node));
  }

  toggle(node, isOpen = !this.open.has(node)) {
    if (!node.hasChildren) return;
    if (isOpen) this.open.add(node);
    else this.open.delete(node);
    this.refresh();
  }

  choose(node, quietly = false) {
    this.chosen = node;
    const index = this.rows.findIndex((row) => row.node === node);
    const top = index * TREE_ROW;
    const { scrollTop, clientHeight } = this.element;
    if (index >= 0 && (top < scrollTop || top + TREE_ROW > scrollTop + clientHeight)) this.element.scrollTop = top - clientHeight / 2;
    this.paint();
    if (!quietly) this.onChoose(node);
  }

  // Opens everything on the way to a node, given from the root.
  reveal(way) {
    for (const node of way.slice(0, -1)) this.open.add(node);
    this.refresh();
    this.choose(way.at(-1));
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.findIndex((row) => row.node === this.chosen);
    const go = (index) => this.rows.length && this.choose(this.rows[Math.min(this.rows.length - 1, Math.max(0, index))].node);
    const node = this.chosen;
    const acts = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(this.rows.length - 1),
      PageDown: () => go(at + 15),
      PageUp: () => go(at - 15),
      ArrowRight: () => (node?.hasChildren && !this.open.has(node) ? this.toggle(node, true) : go(at + 1)),
      ArrowLeft: () => {
        if (node && this.open.has(node)) return this.toggle(node, false);
        for (let index = at - 1; index >= 0; index--) if (this.rows[index].level < this.rows[at].level) return go(index);
      },
      Enter: () => node && this.toggle(node),
      " ": () => node && this.toggle(node),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  close() {
    this.observer.disconnect();
  }
}
