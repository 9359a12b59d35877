"use strict";
// The live page: draws the state that the server sends, whole, whenever it has changed.

const SIZES = ["B", "KiB", "MiB", "GiB"];

function formatBytes(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < SIZES.length - 1; unit += 1) bytes /= 1024;
  return `${unit ? bytes.toPrecision(3) : bytes} ${SIZES[unit]}`;
}

function formatSeconds(seconds) {
  if (seconds >= 100) return `${seconds.toFixed(0)} s`;
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  return `${(seconds * 1e6).toPrecision(3)} µs`;
}

function formatCount(count) {
  return Math.round(count).toLocaleString("en");
}

function make(tag, text = "", name = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}

function listFacts(program) {
  const { modelled, recent } = program;
  const mean = recent.length ? recent.reduce((sum, value) => sum + value, 0) / recent.length : 0;
  const facts = [];
  if (modelled) {
    facts.push(["fullest tile, modelled", `${formatBytes(modelled.peak_bytes)} of ${formatBytes(modelled.limit_bytes)}`]);
    facts.push(["one call, modelled", `${formatCount(modelled.call_cycles)} cycles, ${formatSeconds(modelled.call_seconds)}`]);
    facts.push(["throughput, modelled", `${formatCount(modelled.samples_per_second)} samples/s`]);
  }
  facts.push(["calls", formatCount(program.calls)]);
  if (mean) {
    facts.push(["one call, measured", `${formatSeconds(mean)}`]);
    if (modelled) facts.push(["throughput, measured", `${formatCount(modelled.samples_per_call / mean)} samples/s`]);
  }
  if (program.compile_seconds !== null) facts.push(["compiled in", formatSeconds(program.compile_seconds)]);
  return facts;
}

function drawCalls(recent) {
  const highest = Math.max(...recent);
  const points = recent.map((value, place) => `${(place / (recent.length - 1)) * 100},${42 - (value / highest) * 40}`);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 44");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `seconds of the last ${recent.length} calls, the slowest ${formatSeconds(highest)}`);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", `M${points.join("L")}`);
  svg.append(path);
  return [svg, make("p", `the last ${recent.length} calls on this machine, slowest ${formatSeconds(highest)}`, "caption")];
}

function describeState(program) {
  if (program.state === "failed") return ["failed", "bad"];
  if (program.state === "compiling") return [`compiling, ${program.percent} %`, "busy"];
  if (!program.modelled) return ["runs", "good"];
  return program.modelled.fits ? ["fits", "good"] : ["does not fit", "bad"];
}

function drawProgram(program, over) {
  const card = make("section", "", "program");
  card.dataset.number = program.number;
  const head = make("div", "", "head");
  head.append(make("h2", program.title));
  const cut = over && program.state === "compiling";
  head.append(cut ? make("span", "not compiled to the end", "bad") : make("span", ...describeState(program)));
  const { modelled } = program;
  if (modelled) {
    head.append(make("span", `${modelled.ipus} ${modelled.ipus === 1 ? "IPU" : "IPUs"} of ${modelled.system}`, "system"));
  }
  if (program.has_report && !over) {
    const link = make("a", "report");
    link.href = `report/${program.number}`;
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    head.append(link);
  }
  card.append(head);
  if (program.state === "compiling" && !over) {
    const bar = make("progress");
    bar.max = 100;
    bar.value = program.percent;
    bar.setAttribute("aria-label", `compiling ${program.title}`);
    card.append(bar);
  }
  if (program.error) card.append(make("p", program.error, "error"));
  if (program.state === "ready") {
    const list = make("dl");
    for (const [name, value] of listFacts(program)) {
      const pair = make("div");
      pair.append(make("dt", name), make("dd", value));
      list.append(pair);
    }
    card.append(list);
    if (program.recent.length > 1) card.append(...drawCalls(program.recent));
  }
  return card;
}

function describeEnd(state) {
  const after = `after ${formatSeconds(state.ended.at - state.started)}`;
  if (state.ended.code === null) return [`ended by a signal ${after}`, "state bad"];
  if (state.ended.code !== 0) return [`ended with exit code ${state.ended.code} ${after}`, "state bad"];
  return [`ended ${after}`, "state good"];
}

function show(state) {
  const over = state.ended !== null;
  document.title = `${over ? "ended" : "running"}: ${state.script} · openipu live (unofficial)`;
  document.getElementById("script").textContent = state.script;
  const line = document.getElementById("state");
  const [text, name] = over ? describeEnd(state) : ["running", "state"];
  if (line.textContent !== text) line.textContent = text;
  line.className = name;
  document.getElementById("empty").hidden = state.programs.length > 0;
  const focused = document.activeElement?.closest?.(".program")?.dataset.number;
  document.getElementById("programs").replaceChildren(...state.programs.map((program) => drawProgram(program, over)));
  if (focused) document.querySelector(`.program[data-number="${focused}"] a`)?.focus();
}

function start() {
  let begun = null; // by the clock of this browser
  setInterval(() => {
    const seconds = begun === null ? null : Math.floor((performance.now() - begun) / 1000);
    document.getElementById("time").textContent = seconds === null ? "" : `for ${seconds} s`;
  }, 500);
  const source = new EventSource("events");
  source.onmessage = (event) => {
    const state = JSON.parse(event.data);
    begun = state.ended === null ? performance.now() - (state.now - state.started) * 1000 : null;
    if (state.ended !== null) source.close();
    show(state);
  };
  source.onerror = () => {
    begun = null;
    const line = document.getElementById("state");
    line.textContent = "no connection: the script may have ended";
    line.className = "state bad";
  };
}

start();
