// Starts the page: unpacks the data and shows the view that the address asks for.

// name: [title, what draws it, whether a profile has it]
const VIEWS = {
  summary: ["Summary", showSummary],
  memory: ["Memory", showMemory],
  liveness: ["Liveness", showLiveness],
  trace: ["Trace", showTrace],
  pipeline: ["Pipeline", showPipeline, (data) => data.summary.pipeline],
  operations: ["Operations", showOperations],
};

async function start() {
  const root = document.getElementById("view");
  if (typeof DecompressionStream === "undefined") {
    root.textContent = "This browser cannot unpack the report. Open it with Chrome 80, Firefox 113, Safari 16.4 or newer.";
    return;
  }
  let current = null;
  let shown = {};
  theme.start(document.getElementById("theme"), () => shown.paint?.());
  const data = await readData(document.getElementById("data").textContent);
  document.getElementById("data").remove();
  document.getElementById("program").textContent = data.summary.name;
  document.getElementById("made").textContent = `Made with openipu ${data.summary.openipu_version}, ${data.summary.created.replace("T", " ").replace("+00:00", " UTC")}.`;
  document.getElementById("skip").addEventListener("click", () => document.getElementById("main").focus());
  const nav = document.getElementById("nav");
  const views = Object.fromEntries(Object.entries(VIEWS).filter(([, [, , isThere]]) => !isThere || isThere(data)));
  nav.append(...Object.entries(views).map(([name, [title]]) => make("a", { href: address.link({ view: name }), text: title, "data-view": name })));

  function route() {
    const parameters = address.read();
    const name = Object.hasOwn(views, parameters.view ?? "") ? parameters.view : "summary";
    // A link to the open view with a selection changes the selection; without one it starts the view anew.
    if (name === current && shown.update && Object.keys(parameters).length > 1) {
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
    document.title = `${views[name][0]} · ${data.summary.name} · openipu (unofficial)`;
    document.body.dataset.view = name;
    scrollTo(0, 0);
  }
  window.addEventListener("hashchange", route);
  route();
}
