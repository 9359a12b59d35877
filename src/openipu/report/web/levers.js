// Does not fit: what each lever would save and cost, planned again, and the line that pulls it.

const FRONT_ENDS = { openipu: "openipu", poptorch: "PopTorch", "optimum.graphcore": "Optimum", lightning: "Lightning", popart: "PopART", tensorflow: "TensorFlow", keras: "Keras", paddle: "Paddle" };

function makeLevers({ summary: { fit, advice }, tree }, parameters) {
  if (!advice && tree.length) {
    return makeAdvicePanel(make("p", { id: "own-mapping" }, "This program maps its tensors and vertices to tiles itself, so no option moves them. Spread the largest of what is listed below over more tiles, with ", make("code", { text: "graph.setTileMapping" }), " or ",
      make("code", { text: "poputil.mapTensorLinearly" }), ", or give library calls a lower ", make("code", { text: "availableMemoryProportion" }), "."));
  }
  if (!advice) {
    return makeAdvicePanel(make("p", {}, "No lever was planned again. ", make("code", { text: "openipu plan --profile DIR TARGET" }), " does that, and says what each one saves and costs."));
  }
  const known = [...new Set(advice.levers.flatMap((lever) => Object.keys(lever.words)))];
  let words = known.includes(parameters.words) ? parameters.words : advice.front_end;
  const choice = make("select", { id: "lever-words", onchange: () => {
    words = choice.value;
    address.note({ words });
    table.setRows(advice.levers);
  } }, ...known.map((name) => make("option", { value: name, selected: name === words, text: FRONT_ENDS[name] ?? name })));
  const table = makeTable({
    caption: "Levers", rows: advice.levers,
    columns: [
      { label: "Planned again with", key: "lever", value: (row) => row.lever, cell: (row) => row.lever },
      { label: "Fits", value: (row) => Number(row.fits), cell: (row) => make("span", { class: row.fits ? "tag good" : "tag", text: row.fits ? "yes" : "no" }), plain: (row) => row.fits },
      { label: "Fullest tile", key: "peak_tile_bytes", number: true, value: (row) => row.peak_tile_bytes, cell: (row) => formatBytesOf(row.peak_tile_bytes, fit.limit_bytes) },
      { label: "Saved on it", key: "saved_tile_bytes", number: true, value: (row) => row.saved_tile_bytes, cell: (row) => formatBytes(row.saved_tile_bytes) },
      { label: "Saved in all", key: "saved_bytes", number: true, value: (row) => row.saved_bytes, cell: (row) => formatBytes(row.saved_bytes) },
      { label: "IPU cycles a sample", key: "paid_ipu_cycles_per_sample", number: true, value: (row) => row.paid_ipu_cycles_per_sample, cell: (row) => formatPaid(Math.round(row.paid_ipu_cycles_per_sample)) },
      { label: "Time a sample", key: "slowdown", number: true, value: (row) => row.slowdown ?? Infinity, cell: (row) => row.change },
      { label: "How", keep: true, value: (row) => row.words[words] ?? "", cell: (row) => (row.words[words] ? make("code", { text: row.words[words] }) : make("span", { class: "muted", text: "no such setting there" })) },
    ],
  });
  table.element.id = "levers";
  return makeAdvicePanel(
    make("p", { id: "lever-verdict", text: advice.verdict }),
    advice.levers.length ? make("div", { class: "controls" }, make("label", {}, "In the words of", choice)) : null,
    advice.levers.length ? table.element : null,
    advice.not_tried ? make("p", { class: "hint", id: "levers-not-tried", text: advice.not_tried }) : null,
    make("p", { class: "hint", text: `${countOf(advice.plans_made, "plan")} made. A lever has its gentlest value that fits, else the one that saves most.` }));
}

const makeAdvicePanel = (...children) => {
  const panel = makePanel("Does not fit: what helps, and what it costs", ...children);
  panel.id = "advice";
  return panel;
};

const formatPaid = (cycles) => (cycles ? `${cycles < 0 ? "−" : "+"}${formatWhole(Math.abs(cycles))}` : "as many");

// What is needed of what there is, in the unit of the latter: "3,607 of 589 KiB".
function formatBytesOf(bytes, whole) {
  const [number, unit] = formatBytes(whole).split(" ");
  return `${trimNumber(bytes / { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10, B: 1 }[unit])} of ${number} ${unit}`;
}
