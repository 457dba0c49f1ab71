// The workspace: a rectangle for each value, from the call that writes it to the last that reads it.
function memoryView(chosen) {
  const plan = data.facts.memory;
  const root = h("section", { cls: "memory" });
  if (plan.missing) { root.append(h("p", { cls: "note" }, `No memory plan here: ${plan.missing}.`)); return { element: root }; }
  if (!plan.rectangles.length) { root.append(figures(), h("p", { cls: "note" }, "No value is in the workspace: the kernels read inputs and weights and write outputs.")); return { element: root }; }
  const holder = h("div", { cls: "plot", tabindex: 0, role: "application", "aria-label": "memory by call; arrows move the call" });
  const table = h("div", { cls: "alive" });
  const shapes = [];
  let step = chosen >= 0 ? chosen : plan.used.indexOf(Math.max(...plan.used)), cursor = null;
  root.append(figures());
  if (plan.control_flow) root.append(h("p", { cls: "note" }, "@main branches or loops: calls stand here in the order of its text, each once, whatever runs."));
  root.append(holder, table);
  const observer = new ResizeObserver(() => draw());
  observer.observe(holder);
  holder.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (!by) return;
    event.preventDefault();
    move(step + by);
  });
  requestAnimationFrame(() => { draw(); move(step); });
  return { element: root, focus: () => holder.focus() };

  function figures() {
    const row = (name, bytes, why) => h("div", { cls: "figure" }, h("b", {}, format.bytes(bytes)), h("span", {}, name), why && h("small", {}, why));
    const over = plan.bound ? (100 * (plan.bytes - plan.bound)) / plan.bound : 0, most = Math.max(0, ...plan.used);
    return h("div", { cls: "figures" }, row("workspace", plan.bytes, plan.open ? "of these sizes, planned at the call" : over < 0.05 ? "no plan can be smaller" : `${over.toFixed(1)}% above the lower bound`),
      plan.open ? row("in use at most", most) : row("without sharing", plan.sum, plan.bytes ? `${(plan.sum / plan.bytes).toFixed(1)} times as much` : ""), row("weights", plan.weights), row("kernels' own", plan.kernel_workspace, "behind the plan"), row("scratch of a thread", plan.scratch));
  }
  function draw() {
    const width = holder.clientWidth, height = holder.clientHeight, left = 64, bottom = 26, top = 8, right = 8;
    if (!width || !height) return;
    const high = Math.max(plan.bytes, ...plan.rectangles.map((one) => one.end)), steps = plan.steps + 1;
    const x = (k) => left + ((width - left - right) * k) / steps, y = (bytes) => height - bottom - ((height - bottom - top) * bytes) / high;
    const parts = [];
    for (let k = 0; k <= 4; k++) {
      const bytes = (high * k) / 4;
      parts.push(svg("line", { cls: "grid", x1: left, x2: width - right, y1: y(bytes), y2: y(bytes) }), svg("text", { cls: "axis", x: left - 6, y: y(bytes) + 4, "text-anchor": "end" }, format.bytes(Math.round(bytes)).replace(".0 ", " ")));
    }
    const every = Math.max(1, Math.ceil(plan.steps / Math.max(4, Math.floor(width / 70))));
    for (let k = 0; k < plan.steps; k += every) parts.push(svg("text", { cls: "axis", x: x(k + 0.5), y: height - 8, "text-anchor": "middle" }, k));
    shapes.length = 0;
    plan.rectangles.forEach((one, k) => {
      const kernel = data.facts.kernels[data.facts.calls[one.first].kernel].name;
      const shape = svg("rect", { cls: "life", x: x(one.first) + 0.5, y: y(one.end) + 0.5, width: Math.max(1, x(Math.min(one.last, plan.steps) + 1) - x(one.first) - 1), height: Math.max(1, y(one.start) - y(one.end) - 1), rx: 2,
        style: { "--hue": hue(kernel) }, onmousemove: (event) => tip.show(event, about(one)), onmouseleave: tip.hide, onclick: () => move(one.first), "data-life": k });
      shapes.push(shape);
      parts.push(shape);
      const w = x(one.last + 1) - x(one.first), tall = y(one.start) - y(one.end);
      if (w > 90 && tall > 15) parts.push(svg("text", { cls: "in", x: x(one.first) + 6, y: y(one.end) + 13 }, shortened(one.label, Math.floor(w / 7))));
    });
    cursor = svg("rect", { cls: "now", y: top, height: height - bottom - top, width: Math.max(2, x(1) - x(0)) });
    parts.push(cursor);
    const drawing = svg("svg", { width, height }, parts);
    drawing.addEventListener("click", (event) => { const at = Math.floor(((event.offsetX - left) * steps) / (width - left - right)); if (!event.target.dataset.life) move(at); });
    holder.replaceChildren(drawing);
    cursor.place = (k) => cursor.setAttribute("x", x(k));
    mark();
  }
  function mark() {
    if (!cursor) return;
    cursor.place(step);
    plan.rectangles.forEach((one, k) => shapes[k].classList.toggle("on", one.first <= step && step <= one.last));
  }
  function about(one) {
    const call = (k) => (k >= plan.steps ? "a copy to an output" : `call ${k}, ${data.facts.kernels[data.facts.calls[k].kernel].name}`);
    return [one.label, `${format.bytes(one.end - one.start)} at ${one.start.toLocaleString("en")}`, `written by ${call(one.first)}`, `last read by ${one.reads.length ? call(one.last) : "nobody"}`];
  }
  function move(to) {
    step = Math.max(0, Math.min(plan.steps - 1, to));
    remember("memory", step);
    mark();
    const alive = plan.rectangles.filter((one) => one.first <= step && step <= one.last);
    const call = data.facts.calls[step], kernel = data.facts.kernels[call.kernel];
    alive.sort((a, b) => b.end - b.start - (a.end - a.start));
    table.replaceChildren(
      h("h3", {}, `call ${step}: `, button(kernel.name, () => go("graph", step), { cls: "link" }), h("span", { cls: "number" }, `${format.bytes(plan.used[step])} in use`)),
      h("table", {}, h("thead", {}, h("tr", {}, ["value", "bytes", "address", "written by", "read by"].map((name, k) => h("th", { cls: k === 1 || k === 2 ? "num" : "" }, name)))),
        h("tbody", {}, alive.map((one) => h("tr", {}, h("td", {}, h("i", { cls: "dot", style: { "--hue": hue(data.facts.kernels[data.facts.calls[one.first].kernel].name) } }), one.label), h("td", { cls: "num" }, format.bytes(one.end - one.start)), h("td", { cls: "num" }, one.start.toLocaleString("en")), h("td", {}, one.first === step ? "this call" : `call ${one.first}`), h("td", {}, one.reads.map((k) => (k >= plan.steps ? "output" : k)).join(", ") || "-"))))));
  }
}
