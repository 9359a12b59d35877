// View: what the profile tells by itself. The rules are Python's; here they get links.

const LEVELS = { problem: "Problem", advice: "Advice", note: "Note" };

function showInsights(data, root, parameters) {
  const findings = data.summary.insights;
  const count = (level) => findings.filter((finding) => finding.level === level).length;
  root.append(make("h1", { text: "Insights" }),
    make("p", { class: "lead", text: findings.length ? `${countOf(count("problem"), "problem")}, ${countOf(count("advice"), "piece")} of advice, ${countOf(count("note"), "note")}. Each has the number, the cause and what to do; all figures are modelled.`
      : "No rule found anything to say about this program." }));
  const box = make("input", { type: "search", id: "insight-filter", placeholder: "Filter insights", "aria-label": "Filter insights", value: parameters.filter ?? "", oninput: () => {
    address.note({ filter: box.value });
    fill();
  } });
  const list = make("div", { id: "insights" });
  const table = makeTable({
    caption: "Insights", rows: findings, filter: false,
    columns: [
      { label: "Insight", value: (row) => row.title, cell: (row) => row.title },
      { label: "Level", value: (row) => row.level, cell: (row) => LEVELS[row.level] },
      { label: "Topic", value: (row) => row.topic, cell: (row) => row.topic },
      { label: "Value", number: true, value: (row) => row.value, cell: (row) => formatFinding(row) },
      { label: "Cause", value: (row) => row.cause, cell: (row) => row.cause },
      { label: "Remedy", value: (row) => row.remedy, cell: (row) => row.remedy },
    ],
  });
  if (!data.summary.fit.fits) root.append(makeLevers(data, parameters));
  if (data.other) root.append(makeInsightComparison(data));
  root.append(make("div", { class: "controls" }, box, make("span", { class: "push" }), table.element.querySelector(".saves")), list);

  function fill() {
    const wanted = box.value.trim().toLowerCase();
    const shown = findings.filter((finding) => JSON.stringify(finding).toLowerCase().includes(wanted));
    list.replaceChildren(...shown.map(makeFinding), ...(shown.length || !findings.length ? [] : [make("p", { text: "No insight contains that." })]));
  }
  fill();
  return { update: () => {} };
}

const formatFinding = ({ value, unit }) => (unit === "bytes" ? formatTileBytes(value) : unit === "ratio" ? `${value.toFixed(2)}×` : formatShare(value));

function makeFinding(finding) {
  const evidence = finding.evidence.map((entry) => {
    const name = Object.keys(entry.link).length ? make("a", { href: address.link(entry.link) }, makePath(entry.name)) : makePath(entry.name);
    return make("li", {}, name, make("b", { text: ` ${entry.figure}` }), entry.line ? make("span", { class: "source", title: shortenText(entry.line, 2000), text: ` ${shortenText(shortenLine(entry.line), 60)}` }) : null);
  });
  return make("article", { class: `finding ${finding.level}`, "data-rule": finding.rule },
    make("header", {}, make("span", { class: "level", text: LEVELS[finding.level] }), make("h2", { text: finding.title }), make("b", { class: "value", text: formatFinding(finding) })),
    make("p", {}, make("span", { class: "what", text: "Why " }), finding.cause),
    make("p", {}, make("span", { class: "what", text: "What to do " }), finding.remedy),
    evidence.length ? make("ul", { class: "evidence", "aria-label": "Evidence" }, ...evidence) : null,
    make("a", { href: address.link(finding.link), text: `See it in ${VIEWS[finding.link.view]?.[0] ?? "the report"}` }));
}

// Rules that speak in one of the two reports only, or in both with other numbers.
function makeInsightComparison(data) {
  const keys = (report) => new Map(report.summary.insights.map((finding) => [finding.rule, finding]));
  const [own, theirs] = [keys(data), keys(data.other)];
  // What only one of them has comes first, then what they say differently.
  const rankOf = (rule) => (own.has(rule) !== theirs.has(rule) ? 0 : own.get(rule).title !== theirs.get(rule).title ? 1 : 2);
  const rules = [...new Set([...own.keys(), ...theirs.keys()])].sort((a, b) => rankOf(a) - rankOf(b));
  const [one, two] = nameReports(data);
  const table = makeTable({
    caption: "Insights of both reports", rows: rules,
    columns: [
      { label: "Rule", value: (rule) => rule, cell: (rule) => rule.replaceAll("-", " ") },
      { label: one, help: "What the rule says of the report that is shown", value: (rule) => own.get(rule)?.title ?? "", cell: (rule) => own.get(rule)?.title ?? "–" },
      { label: two, help: "What it says of the other report", value: (rule) => theirs.get(rule)?.title ?? "", cell: (rule) => theirs.get(rule)?.title ?? "–" },
    ],
  });
  table.element.id = "insight-comparison";
  return makePanel("Insights of both reports", table.element);
}
