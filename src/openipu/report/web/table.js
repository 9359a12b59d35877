// A table that sorts by its headings, filters, shows its rows in portions, and leaves as CSV or JSON.

const FILTER_FROM = 13; // rows: shorter tables are read at a glance

// Columns that find no room are left out, the last first; a button brings them back.
// columns: {label, help (what the heading means), spare (goes first), keep (to the end), value(row) for sorting, cell(row) -> text or element, number, title(row), key and plain(row) for files}
function makeTable({ caption, columns, rows, sort = null, descending = true, portion = 100, onSort = null, onPick = null, filter = true }) {
  const holder = make("div", { class: "table-scroll", role: "region", tabindex: "0", "aria-label": caption });
  const body = make("tbody");
  const heads = columns.map((column, place) => {
    const button = make("button", { type: "button", text: column.label, onclick: () => sortBy(place) });
    return make("th", { scope: "col", class: column.number ? "number" : undefined, title: explainHeading(column) }, column.value ? button : column.label);
  });
  const table = make("table", {}, make("caption", { class: "unseen", text: caption }), make("thead", {}, make("tr", {}, ...heads)), body);
  const more = make("button", { type: "button", class: "more", onclick: () => showMore() });
  holder.append(table);
  let given = rows.slice();
  let all = given;
  let shown = 0;
  let texts = null;
  const box = make("input", { type: "search", class: "table-filter", placeholder: "Filter", "aria-label": `Filter “${caption}”`, oninput: () => narrow() });
  const count = make("span", { class: "hint", role: "status" });
  const wider = make("button", { type: "button", class: "wider", hidden: true, onclick: () => {
    isWide = !isWide;
    fitColumns();
  } });
  let isWide = false;
  let left = new Set(); // columns without room
  const tools = make("div", { class: "table-tools" }, box, count, wider, makeSaveButtons(caption, columns, () => all));

  function narrow() {
    const wanted = box.value.trim().toLowerCase();
    texts ??= new Map(given.map((row) => [row, columns.map((column) => String(readColumn(column, row))).join("\n").toLowerCase()]));
    all = wanted ? given.filter((row) => texts.get(row).includes(wanted)) : given.slice();
    count.textContent = wanted ? `${formatWhole(all.length)} of ${formatWhole(given.length)}` : "";
    arrange();
  }

  function fillRow(row) {
    const cells = columns.map((column, place) => {
      const content = column.cell(row);
      const title = column.title?.(row);
      const cell = make(place === 0 && !column.number ? "th" : "td", { class: column.number ? "number" : undefined, title, hidden: left.has(place) });
      if (place === 0 && !column.number) cell.scope = "row";
      if (place === 0 && onPick) cell.append(make("button", { type: "button", class: "pick", onclick: () => onPick(row) }, content));
      else cell.append(content);
      return cell;
    });
    return make("tr", {}, ...cells);
  }

  function showMore(count = 500) {
    body.append(...all.slice(shown, shown + count).map(fillRow));
    shown = Math.min(all.length, shown + count);
    fitColumns();
    more.hidden = shown >= all.length;
    more.textContent = `Show more (${formatWhole(shown)} of ${formatWhole(all.length)})`;
  }

  // Widths are read once, with every column there: in a table that is too wide none of them can shrink.
  function fitColumns() {
    if (!holder.clientWidth) return;
    hideColumns(new Set());
    const order = columns.map((_, place) => place).filter((place) => place && place !== sort && !columns[place].keep).reverse();
    order.sort((one, other) => Number(Boolean(columns[other].spare)) - Number(Boolean(columns[one].spare)));
    const widths = heads.map((head) => head.offsetWidth);
    let over = table.offsetWidth - holder.clientWidth;
    const spare = new Set();
    for (const place of order) {
      if (over <= 0) break;
      spare.add(place);
      over -= widths[place];
    }
    wider.hidden = !spare.size;
    wider.textContent = isWide ? "Fewer columns" : `${formatWhole(spare.size)} more column${spare.size === 1 ? "" : "s"}`;
    if (!isWide && spare.size) hideColumns(spare);
  }
  function hideColumns(next) {
    if (next.size === left.size && [...next].every((place) => left.has(place))) return;
    left = next;
    for (const row of [...table.tHead.rows, ...body.rows]) [...row.cells].forEach((cell, place) => (cell.hidden = left.has(place)));
  }
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (holder.clientWidth === width) return;
    width = holder.clientWidth;
    fitColumns();
  });
  observer.observe(holder);

  function arrange() {
    if (sort !== null) {
      const value = columns[sort].value;
      const sign = descending ? -1 : 1;
      all.sort((one, other) => {
        const [a, b] = [value(one), value(other)];
        return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
      });
    }
    heads.forEach((head, place) => {
      if (place === sort) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren();
    shown = 0;
    showMore(portion);
  }

  function sortBy(place) {
    descending = place === sort ? !descending : Boolean(columns[place].number);
    sort = place;
    arrange();
    onSort?.(place, descending);
  }

  function offerFilter() {
    box.hidden = !filter || given.length < FILTER_FROM;
    tools.hidden = !given.length;
  }

  offerFilter();
  arrange();
  return {
    element: make("div", { class: "table" }, tools, holder, more),
    setRows(next) {
      given = next.slice();
      texts = null;
      offerFilter();
      if (box.value) narrow();
      else {
        all = given;
        arrange();
      }
    },
  };
}

// Names with their values; what has no value is left out.
function makeFacts(caption, facts) {
  const rows = facts
    .filter((fact) => fact[1] !== null && fact[1] !== undefined && fact[1] !== "")
    .map(([name, value, title]) => make("div", { title }, make("dt", { text: name }), make("dd", {}, value)));
  return make("dl", { class: "facts", "aria-label": caption }, ...rows);
}

function makePanel(title, ...children) {
  return make("section", { class: "panel" }, make("h2", { text: title }), ...children);
}
