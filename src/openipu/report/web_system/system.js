// Puts the page together: heading, findings, legend, lanes, search and tables, and the state in the address.

async function start() {
  const get = (id) => document.getElementById(id);
  const data = await readTrace(get("data").textContent);
  get("data").remove();
  const { summary } = data;
  const commands = [...new Set(data.processes.map((process) => process.command))].join(", ");
  get("heading").textContent = `Trace of ${commands.length > 160 ? `${commands.slice(0, 160)}…` : commands}`;
  const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
  get("lead").textContent = `${formatTime(data.span)}, ${plural(summary.events, "event", "events")}, ${plural(summary.processes, "process", "processes")}, `
    + `${plural(summary.threads, "thread", "threads")}. Measured on the host.${describeLoop(summary.loop)}`;
  get("made").textContent = `Version ${data.version}. Recorded from ${new Date(Number(BigInt(data.first_ns) / 1000000n)).toLocaleString()}.`;
  get("findings").hidden = !summary.findings.length;
  get("findings").replaceChildren(...summary.findings.map((text) => makeElement("li", text)));
  const numbers = summary.activities.map((activity) => data.names.indexOf(activity.channel));
  const colours = nameColours(data.names, numbers);
  get("legend").replaceChildren(...summary.activities.map((activity, at) => {
    const item = makeElement("li");
    const swatch = makeElement("span", "", { class: "swatch" });
    swatch.style.background = `var(${colours.get(numbers[at])})`;
    item.append(swatch, makeElement("span", `${activity.channel} `, { class: "name" }), makeElement("b", formatTime(activity.self_seconds * 1e6)));
    return item;
  }));

  const lanes = new Lanes(get("lanes"), get("pinned-lanes"), get("overview"), data, colours);
  const search = new Search(lanes, data);
  const totals = new Totals(get("totals"), (label) => {
    get("search").value = label;
    get("matches").textContent = search.look(label);
  });
  const closed = new Set();
  const state = new URLSearchParams(location.hash.slice(1));
  let byActivity = state.get("rows") === "activity";
  const pinned = new Set();
  const arrange = () => {
    const laid = layRows(data, byActivity, closed);
    const kept = layRows(data, byActivity, closed, pinned);
    get("pinned").hidden = !kept.rows.length;
    lanes.setRows(laid, kept);
    get("by-thread").setAttribute("aria-pressed", String(!byActivity));
    get("by-activity").setAttribute("aria-pressed", String(byActivity));
    showGutter(get("gutter"), laid.rows, closed, pinned, arrange);
    showGutter(get("pinned-gutter"), kept.rows, closed, pinned, arrange);
  };
  let waiting = 0;
  const settle = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      totals.show(addUp(data, lanes.from, lanes.to));
      get("totals-heading").textContent = `In view: ${formatTime(lanes.to - lanes.from)} from ${formatTime(lanes.from)}`;
      const link = new URLSearchParams({ rows: byActivity ? "activity" : "thread", from: lanes.from.toFixed(3), to: lanes.to.toFixed(3) });
      // In a notebook the page has no address of its own.
      if (location.protocol !== "about:") history.replaceState(null, "", `#${link}`);
    }, 120);
  };
  lanes.onMove = settle;
  lanes.onSelect = (found) => showEvent(get("event"), data, found);
  for (const [id, wanted] of [["by-thread", false], ["by-activity", true]]) {
    get(id).addEventListener("click", () => {
      byActivity = wanted;
      arrange();
      settle();
    });
  }
  get("zoom-in").addEventListener("click", () => lanes.zoom(0.5));
  get("zoom-out").addEventListener("click", () => lanes.zoom(2));
  get("zoom-all").addEventListener("click", () => lanes.show(0, data.span));
  const tell = (text) => {
    get("matches").textContent = text;
  };
  get("search").addEventListener("input", (event) => tell(search.look(event.target.value)));
  get("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") tell(search.walk(event.shiftKey ? -1 : 1));
  });
  get("next").addEventListener("click", () => tell(search.walk(1)));
  get("previous").addEventListener("click", () => tell(search.walk(-1)));
  get("save-perfetto").addEventListener("click", () => saveFile("trace.json", toChromeTrace(data), "application/json"));
  get("save-svg").addEventListener("click", () => saveSvg(lanes));
  get("save-png").addEventListener("click", () => savePng(lanes));
  get("save-csv").addEventListener("click", () => saveFile("trace.csv", totals.toCsv(), "text/csv"));
  const setTheme = (theme) => {
    document.documentElement.dataset.theme = theme;
    get("theme").textContent = theme === "dark" ? "Light" : "Dark";
    lanes.ask();
  };
  get("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  arrange();
  lanes.show(Number(state.get("from") ?? 0) || 0, Number(state.get("to") ?? data.span) || data.span);
  document.body.dataset.ready = "yes";
}

function describeLoop(loop) {
  if (!loop) return "";
  const share = (value) => `${(value * 100).toFixed(1)} %`;
  return ` ${loop.calls.toLocaleString("en")} calls in ${formatTime(loop.seconds * 1e6)}: run ${share(loop.running)}, waiting for data `
    + `${share(loop.waiting_for_data)}, compiling ${share(loop.compiling)}, not marked ${share(loop.unmarked)}.`;
}

// Names of the rows, beside them. A process can be closed, and a band of rows pinned.
function showGutter(gutter, rows, closed, pinned, arrange) {
  const parts = [];
  for (const row of rows) {
    if (!row.title) continue;
    const open = row.kind === "head" && !closed.has(row.process.file);
    const text = row.kind === "head" ? `${open ? "▾" : "▸"} ${row.title}` : row.title;
    const part = makeElement(row.kind === "head" ? "button" : "span", text.length > 200 ? text.slice(0, 200) : text, { title: text.slice(0, 500) });
    part.style.top = `${row.top}px`;
    if (row.kind === "head") {
      part.type = "button";
      part.setAttribute("aria-expanded", String(open));
      part.addEventListener("click", () => {
        if (open) closed.add(row.process.file);
        else closed.delete(row.process.file);
        arrange();
      });
    }
    parts.push(part);
    if (row.kind === "head") continue;
    const isPinned = pinned.has(row.key);
    const pin = makeElement("button", isPinned ? "◆" : "◇", { type: "button", class: "pin", "aria-pressed": String(isPinned), "aria-label": `Keep “${text.slice(0, 100)}” in sight`, title: isPinned ? "Let it go" : "Keep in sight" });
    pin.style.top = `${row.top}px`;
    pin.addEventListener("click", () => {
      if (isPinned) pinned.delete(row.key);
      else pinned.add(row.key);
      arrange();
    });
    parts.push(pin);
  }
  gutter.replaceChildren(...parts);
}
