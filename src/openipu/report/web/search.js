// One box for everything: views, ops, modules, lines, variables, tiles and steps. "/" leads to it.

const SEARCH_SHOWN = 6; // of each sort

// Everything that contains the text: {sort, label, note, link}, with how many more there are of a sort.
function searchEverywhere(data, views, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const { ops, variables, steps } = data;
  const found = [];
  const add = (sort, hits, describe) => {
    hits.slice(0, SEARCH_SHOWN).forEach((hit) => found.push({ sort, ...describe(hit) }));
    if (hits.length > SEARCH_SHOWN) found.push({ sort, more: hits.length - SEARCH_SHOWN });
  };
  const numbered = /^(tile|step|op|ipu)\s*(\d+)$/.exec(wanted);
  const number = Number(numbered?.[2] ?? wanted);
  const is = (name) => !numbered || numbered[1] === name;
  if (Number.isInteger(number)) {
    if (is("tile") && number < data.tiles) found.push({ sort: "Tiles", label: `Tile ${number}`, note: "memory", link: { view: "memory", tile: number } });
    if (is("step") && number < steps.length) found.push({ sort: "Steps", label: `Step ${formatWhole(number)}`, note: `${steps.text("kind", number)}: ${steps.text("name", number)}`, link: { view: "liveness", step: number } });
    if (numbered && is("op") && number < ops.length) found.push({ sort: "Ops", label: `Op ${number}`, note: shortenOp(ops.text("op", number)), link: { view: "trace", op: number } });
    if (numbered && is("ipu") && data.memory[number]) found.push({ sort: "IPUs", label: `IPU ${data.memory[number].ipu}`, note: "memory", link: { view: "memory", ipu: number } });
  }
  add("Views", Object.entries(views).filter(([, [title]]) => title.toLowerCase().includes(wanted)), ([name, [title]]) => ({ label: title, note: "", link: { view: name } }));
  add("Insights", data.summary.insights.filter((finding) => `${finding.title} ${finding.cause} ${finding.rule}`.toLowerCase().includes(wanted)), (finding) => ({ label: finding.title, note: finding.level, link: { view: "insights", filter: finding.title } }));
  const distinct = (column, grouping, sort) => {
    const hits = new Map();
    for (let op = 0; op < ops.length; op++) {
      const name = ops.text(column, op);
      if (name && !hits.has(name)) hits.set(name, name.toLowerCase().includes(wanted));
    }
    add(sort, [...hits].filter(([, hit]) => hit).map(([name]) => name), (name) => ({ label: column === "line" ? shortenLine(name) : name, note: sort === "Lines" ? name : "its ops", link: { view: "operations", of: grouping, only: name } }));
  };
  distinct("module", "module", "Modules");
  distinct("line", "line", "Lines");
  add("Ops", findOps(data, text), (op) => ({ label: shortenOp(ops.text("op", op)), note: ops.text("module", op) || ops.text("name", op), link: { view: "trace", op } }));
  const hits = new Set();
  variables.strings.forEach((string, place) => string.toLowerCase().includes(wanted) && hits.add(place));
  const named = [];
  for (let variable = 0; variable < variables.length; variable++) if (hits.has(variables.name[variable]) || hits.has(variables.kind[variable])) named.push(variable);
  add("Variables", named, (variable) => ({ label: variables.text("name", variable), note: `${variables.text("kind", variable)}, ${formatBytes(variables.total_bytes[variable])}`,
    link: { view: "memory", shown: "plan", variable, ...(data.memory.length > 1 ? { ipu: data.memory.findIndex((entry) => entry.ipu === variables.ipu[variable]) } : {}) } }));
  return found;
}

function makeFinder(holder, readData, views) {
  const list = make("ul", { class: "hits", id: "hits", "aria-label": "Found", hidden: true });
  const box = make("input", { type: "search", id: "find-all", placeholder: "Search  /", "aria-label": "Search the whole report", "aria-controls": "hits", autocomplete: "off",
    oninput: () => fill(), onkeydown: (event) => press(event), onfocus: () => box.value && fill() });
  holder.replaceChildren(box, list);

  function fill() {
    const found = searchEverywhere(readData(), views, box.value);
    let sort = null;
    const rows = [];
    for (const hit of found) {
      if (hit.sort !== sort) rows.push(make("li", { class: "hit-sort", text: (sort = hit.sort) }));
      rows.push(hit.more ? make("li", { class: "hint", text: `and ${formatWhole(hit.more)} more` })
        : make("li", {}, make("a", { href: address.link(hit.link), onclick: () => hide() }, make("span", { class: "hit-label", text: shortenText(hit.label, 90) }), make("span", { class: "hit-note", text: shortenText(hit.note, 90) }))));
    }
    list.replaceChildren(...(rows.length ? rows : [make("li", { class: "hint", text: "Nothing found" })]));
    list.hidden = !box.value.trim();
    announce(list.hidden ? "" : `${countOf(found.filter((hit) => !hit.more).length, "result")}`);
  }
  function hide() {
    list.hidden = true;
  }
  const links = () => [...list.querySelectorAll("a")];
  function press(event) {
    if (event.key === "Escape") hide();
    else if (event.key === "Enter") links()[0]?.click();
    else if (event.key === "ArrowDown") links()[0]?.focus();
    else return;
    event.preventDefault();
  }
  list.addEventListener("keydown", (event) => {
    const at = links().indexOf(document.activeElement);
    const next = { ArrowDown: links()[at + 1], ArrowUp: links()[at - 1] ?? box }[event.key];
    if (event.key === "Escape") {
      hide();
      box.focus();
    } else if (next) next.focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => !holder.contains(event.target) && hide());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName)) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}
