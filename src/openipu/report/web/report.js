// Starts the page: unpacks the data and shows the view that the address asks for.

// name: [title, what draws it, whether a profile has it]
const VIEWS = {
  summary: ["Summary", showSummary],
  insights: ["Insights", showInsights],
  memory: ["Memory", showMemory],
  liveness: ["Liveness", showLiveness],
  programs: ["Program tree", showPrograms],
  trace: ["Trace", showTrace],
  pipeline: ["Pipeline", showPipeline, (data) => data.summary.pipeline],
  operations: ["Operations", showOperations],
  graph: ["Graph", showGraph],
};

// One report, or two that know each other. `letter` says which.
async function readReports() {
  const texts = ["data", "other"].map((id) => document.getElementById(id).textContent.trim());
  const reports = await Promise.all(texts.filter(Boolean).map(readData));
  reports.forEach((report, place) => Object.assign(report, { letter: place ? "b" : "a", other: reports[1 - place] ?? null }));
  for (const id of ["data", "other"]) document.getElementById(id).remove();
  return reports;
}

async function start() {
  const root = document.getElementById("view");
  if (typeof DecompressionStream === "undefined") {
    root.textContent = "This browser cannot unpack the report. Open it with Chrome 80, Firefox 113, Safari 16.4 or newer.";
    return;
  }
  let current = null;
  let shown = {};
  theme.start(document.getElementById("theme"), () => shown.paint?.());
  const reports = await readReports();
  let data = null;
  let views = {};
  document.getElementById("skip").addEventListener("click", () => document.getElementById("main").focus());
  const nav = document.getElementById("nav");
  const choice = document.getElementById("reports");
  choice.hidden = reports.length < 2;
  if (reports.length > 1) choice.append(...reports.map((report) => make("button", { type: "button", title: report.summary.name, text: nameReport(report), "aria-label": `Report ${report.letter.toUpperCase()}: ${shortenText(report.summary.name)}`, "data-report": report.letter,
    onclick: () => (location.hash = address.link({ ...address.read(), report: report.letter })) })));

  function open(report) {
    data = report;
    current = null;
    saving.report = shortenText(data.summary.name, 60);
    document.getElementById("program").textContent = shortenText(data.summary.name, 80);
    document.getElementById("program").title = shortenText(data.summary.name, 2000);
    document.getElementById("made").textContent = `Made with openipu ${data.summary.openipu_version}, ${data.summary.created.replace("T", " ").replace("+00:00", " UTC")}.`;
    views = Object.fromEntries(Object.entries(VIEWS).filter(([, [, , isThere]]) => !isThere || isThere(data)));
    nav.replaceChildren(...Object.entries(views).map(([name, [title]]) => make("a", { href: address.link({ view: name }), text: title, "data-view": name })));
    for (const button of choice.children) button.setAttribute("aria-pressed", button.dataset.report === data.letter);
    makeFinder(document.getElementById("finder"), () => data, views);
  }

  function route() {
    const parameters = address.read();
    const wanted = reports.find((report) => report.letter === parameters.report) ?? reports[0];
    if (wanted !== data) open(wanted);
    const name = Object.hasOwn(views, parameters.view ?? "") ? parameters.view : "summary";
    // A link to the open view with a selection changes the selection; without one it starts the view anew.
    const chosen = Object.keys(parameters).filter((key) => key !== "view" && key !== "report");
    if (name === current && shown.update && chosen.length) {
      shown.update(parameters);
      return;
    }
    shown.close?.();
    tip.hide();
    root.replaceChildren();
    current = name;
    for (const link of nav.children) {
      if (link.dataset.view === name) {
        link.setAttribute("aria-current", "page");
        link.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else link.removeAttribute("aria-current");
    }
    shown = views[name][1](data, root, parameters) ?? {};
    document.title = `${views[name][0]} · ${shortenText(data.summary.name, 80)} · openipu (unofficial)`;
    document.body.dataset.view = name;
    scrollTo(0, 0);
  }
  window.addEventListener("hashchange", route);
  route();
}
