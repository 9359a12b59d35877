// Wheel, drag, click and keys on the lanes and on the overview.

function listenToLanes(lanes, pane) {
  const { canvas } = pane;
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (lanes.to - lanes.from >= lanes.data.span * 0.9999 && !event.ctrlKey && (isSideways || event.deltaY > 0)) return; // nothing to zoom out of: the page scrolls
    event.preventDefault();
    if (isSideways) return lanes.pan((event.deltaX || event.deltaY) / 1200);
    lanes.zoom(Math.exp(event.deltaY / 500), lanes.from + event.offsetX / lanes.scale);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: lanes.from, to: lanes.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return showTip(lanes, event, pane);
    const by = event.clientX - drag.x;
    drag.moved ||= Math.abs(by) > 3;
    if (drag.moved) {
      canvas.classList.add("dragging");
      lanes.show(drag.from - by / lanes.scale, drag.to - by / lanes.scale);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) lanes.select(lanes.find(event.offsetX, event.offsetY, pane));
    drag = null;
    canvas.classList.remove("dragging");
  });
  canvas.addEventListener("pointerleave", () => showTip(lanes, null));
  canvas.addEventListener("dblclick", (event) => {
    const found = lanes.find(event.offsetX, event.offsetY, pane);
    if (found) lanes.focus(found.thread, found.place);
  });
  const moves = {
    ArrowLeft: () => lanes.pan(-0.2), ArrowRight: () => lanes.pan(0.2),
    ArrowUp: () => lanes.zoom(0.7), ArrowDown: () => lanes.zoom(1 / 0.7),
    "+": () => lanes.zoom(0.7), "-": () => lanes.zoom(1 / 0.7),
    0: () => lanes.show(0, lanes.data.span), "[": () => lanes.step(-1), "]": () => lanes.step(1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moves[event.key]();
  });
}

// Inside the window a drag moves it; elsewhere a drag makes a new one.
function listenToOverview(lanes) {
  const { overview } = lanes;
  let drag = null;
  const momentOf = (event) => (event.offsetX / overview.clientWidth) * lanes.data.span;
  overview.addEventListener("pointerdown", (event) => {
    const moment = momentOf(event);
    const inside = moment > lanes.from && moment < lanes.to && lanes.to - lanes.from < lanes.data.span * 0.98;
    drag = { moment, inside, from: lanes.from, to: lanes.to };
    overview.setPointerCapture(event.pointerId);
  });
  overview.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const moment = momentOf(event);
    if (drag.inside) lanes.show(drag.from + moment - drag.moment, drag.to + moment - drag.moment);
    else lanes.show(Math.min(moment, drag.moment), Math.max(moment, drag.moment));
  });
  overview.addEventListener("pointerup", () => {
    drag = null;
  });
}

function showTip(lanes, event, pane) {
  const tip = document.getElementById("tip");
  const found = event && lanes.find(event.offsetX, event.offsetY, pane);
  tip.hidden = !found;
  if (!found) return;
  const { thread, place } = found;
  const time = thread.duration[place] < 0 ? "a moment" : formatTime(thread.duration[place]);
  const label = lanes.data.names[thread.label[place]];
  tip.replaceChildren(
    makeElement("b", label.length > 200 ? `${label.slice(0, 200)}…` : label),
    document.createElement("br"),
    makeElement("span", `${lanes.data.names[thread.channel[place]]} · ${time} · at ${formatTime(thread.start[place])}`),
  );
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;
}
