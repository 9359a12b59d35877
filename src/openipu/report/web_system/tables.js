// The table of what is in view, the facts of one event, and files to save.

// [heading, value, what the heading means]
const COLUMNS = [
  ["Label", (row) => row.label, "Name of the trace point"], ["Activity", (row) => row.channel, "Its channel"],
  ["Events", (row) => row.events, "How often it was met in view"], ["Own time", (row) => row.own, "Without the events inside it"],
  ["Total", (row) => row.total, "With the events inside it"], ["Mean", (row) => row.total / row.events, "Total time of one event"],
  ["Longest", (row) => row.longest, "Total time of the longest event"],
];
const SHOWN_ROWS = 200;

function addUp(data, from, to) {
  const found = new Map();
  for (const process of data.processes) {
    for (const thread of process.threads) {
      for (let place = 0; place < thread.length && thread.start[place] <= to; place++) {
        const lasting = Math.max(0, thread.duration[place]);
        if (thread.start[place] + lasting < from) continue;
        const key = thread.channel[place] * data.names.length + thread.label[place];
        let row = found.get(key);
        if (!row) {
          row = { label: data.names[thread.label[place]], channel: data.names[thread.channel[place]], events: 0, own: 0, total: 0, longest: 0 };
          found.set(key, row);
        }
        row.events += 1;
        row.own += thread.own[place];
        row.total += lasting;
        row.longest = Math.max(row.longest, lasting);
      }
    }
  }
  return [...found.values()];
}

class Totals {
  constructor(table, onPick) {
    this.table = table;
    this.onPick = onPick;
    this.order = 3;
    this.rows = [];
  }

  show(rows) {
    this.rows = rows;
    const value = COLUMNS[this.order][1];
    const compare = this.order < 2 ? (a, b) => value(a).localeCompare(value(b)) : (a, b) => value(b) - value(a);
    this.rows.sort(compare);
    const head = makeElement("tr");
    COLUMNS.forEach(([name, , help], index) => {
      const cell = makeElement("th", "", { scope: "col", title: help });
      const button = makeElement("button", name, { type: "button" });
      button.addEventListener("click", () => {
        this.order = index;
        this.show(this.rows);
      });
      if (index === this.order) cell.setAttribute("aria-sort", index < 2 ? "ascending" : "descending");
      cell.append(button);
      head.append(cell);
    });
    const body = makeElement("tbody");
    for (const row of this.rows.slice(0, SHOWN_ROWS)) {
      const line = makeElement("tr");
      COLUMNS.forEach(([, read], index) => {
        const cell = makeElement("td", index < 2 ? (index ? read(row) : "") : index === 2 ? read(row).toLocaleString("en") : formatTime(read(row)));
        if (!index) {
          const button = makeElement("button", row.label, { type: "button", title: "Search for it" });
          button.addEventListener("click", () => this.onPick(row.label));
          cell.append(button);
        }
        line.append(cell);
      });
      body.append(line);
    }
    const top = makeElement("thead");
    top.append(head);
    this.table.replaceChildren(top, body);
  }

  toCsv() {
    const quote = (value) => `"${String(value).replaceAll('"', '""')}"`;
    const head = ["label", "activity", "events", "own_us", "total_us", "mean_us", "longest_us"];
    return [head, ...this.rows.map((row) => COLUMNS.map(([, read]) => read(row)))].map((line) => line.map(quote).join(",")).join("\r\n");
  }
}

function showEvent(place, data, found) {
  if (!found) {
    place.replaceChildren("Click an event, or step to one.");
    return;
  }
  const { thread, place: at } = found;
  const facts = {
    Label: data.names[thread.label[at]],
    Activity: data.names[thread.channel[at]],
    Begins: formatTime(thread.start[at]),
    Takes: thread.duration[at] < 0 ? "a moment" : `${formatTime(thread.duration[at])}, of it ${formatTime(thread.own[at])} outside the events in it`,
    Thread: `${thread.name} ${thread.tid} of process ${thread.process.pid}`,
  };
  for (const [name, value] of Object.entries(JSON.parse(thread.details[at] ?? "{}"))) facts[name] = typeof value === "string" ? value : JSON.stringify(value);
  const list = makeElement("dl", "", { class: "facts" });
  for (const [name, value] of Object.entries(facts)) list.append(makeElement("dt", name), makeElement("dd", value));
  place.replaceChildren(list);
}

// The same document that `openipu trace --perfetto` writes, without heatmaps.
function toChromeTrace(data) {
  const events = [];
  for (const process of data.processes) {
    events.push({ ph: "M", name: "process_name", pid: process.pid, args: { name: process.command } });
    for (const thread of process.threads) {
      events.push({ ph: "M", name: "thread_name", pid: process.pid, tid: thread.tid, args: { name: thread.name } });
      for (let at = 0; at < thread.length; at++) {
        const lasting = thread.duration[at] < 0 ? { ph: "i", s: "t" } : { ph: "X", dur: thread.duration[at] };
        events.push({ name: data.names[thread.label[at]], cat: data.names[thread.channel[at]], pid: process.pid, tid: thread.tid, ts: thread.start[at], ...lasting });
      }
    }
    for (const line of process.series) {
      line.time.forEach((time, at) => events.push({ ph: "C", name: line.graph, pid: process.pid, ts: time, args: { [line.label]: line.value[at] } }));
    }
  }
  return JSON.stringify({ displayTimeUnit: "ms", traceEvents: events });
}

function saveFile(name, text, type) {
  const link = makeElement("a", "", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The lanes as they are shown now.
function drawImage(lanes, pen) {
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  lanes.drawPane(pen, lanes.canvas.clientWidth, lanes.panes[0]);
}

function saveSvg(lanes) {
  const pen = new SvgContext(lanes.canvas.clientWidth, lanes.panes[0].height, lanes.read("--panel"));
  drawImage(lanes, pen);
  saveFile("trace.svg", pen.write(), "image/svg+xml");
}

function savePng(lanes) {
  const [width, height] = [lanes.canvas.clientWidth, lanes.panes[0].height];
  const canvas = makeElement("canvas", "", { width: width * 2, height: height * 2 });
  const pen = canvas.getContext("2d");
  pen.setTransform(2, 0, 0, 2, 0, 0);
  pen.fillStyle = lanes.read("--panel");
  pen.fillRect(0, 0, width, height);
  drawImage(lanes, pen);
  canvas.toBlob((blob) => saveFile("trace.png", blob, "image/png"));
}
