// The fused graph: a box for each call of a kernel with the operations in it. Drag to pan, wheel or + and - to zoom.
function graphView(chosen) {
  const { nodes, edges, width, height } = data.facts.graph;
  const times = callTimes();
  const total = times.reduce((sum, one) => sum + one, 0);
  const most = Math.max(...times, 1e-12);
  const boxes = new Map();
  const layer = svg("g", {});
  const drawing = svg("svg", { cls: "drawing", tabindex: 0, role: "application", "aria-label": "the fused graph; arrows pan, + and - zoom, n and p step through the kernels" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", cls: "arrow" }))), layer);
  const side = h("aside", { cls: "side" });
  const view = { x: 0, y: 0, scale: 1 };
  let selected = -1;
  const zoom = h("div", { cls: "zoom" }, button("+", () => scaleBy(1.3), { title: "zoom in (+)" }), button("−", () => scaleBy(1 / 1.3), { title: "zoom out (-)" }),
    button("fit", () => fit(), { title: "show all (0)" }), button("width", () => fit(true), { title: "fit the width (w)" }));
  const root = h("section", { cls: "graph" }, h("div", { cls: "canvas" }, drawing, zoom), side);
  draw();
  select(chosen >= 0 ? chosen : -1);
  requestAnimationFrame(() => { fit(true); if (chosen >= 0) centre(boxes.get(chosen)); });
  events();
  return { element: root, focus: () => drawing.focus(), select: (call) => { select(call); centre(boxes.get(call)); }, clear: () => select(-1) };

  function draw() {
    edges.forEach((edge, k) => {
      const points = edge.points;
      let path = `M${points[0]}`;
      for (let n = 1; n < points.length; n++) {
        const [x0, y0] = points[n - 1], [x1, y1] = points[n], middle = (y0 + y1) / 2;
        path += `C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
      }
      const name = (n) => nodes[n].label;
      layer.append(svg("path", { d: path, cls: "edge", "data-edge": k, "marker-end": "url(#arrow)", onmousemove: (event) => tip.show(event, [edge.type, `${name(edge.source)} → ${name(edge.target)}`]), onmouseleave: tip.hide }));
    });
    nodes.forEach((node, k) => {
      const share = node.call >= 0 && total ? times[node.call] / total : 0;
      const group = svg("g", { cls: "box n-" + node.kind, transform: `translate(${node.x} ${node.y})`, "data-node": k, onclick: () => node.call >= 0 && select(node.call),
        onmousemove: (event) => { hover(k); tip.show(event, describe(node)); }, onmouseleave: () => { hover(-1); tip.hide(); } },
        svg("rect", { width: node.width, height: node.height, rx: node.kind === "kernel" ? 7 : node.height / 2 }));
      if (share) {
        group.append(svg("rect", { cls: "heat", width: node.width, height: node.height, rx: 7, style: { opacity: 0.06 + 0.5 * (times[node.call] / most) } }));
        group.append(svg("text", { cls: "share", x: node.width - 8, y: 18, "text-anchor": "end" }, format.percent(100 * share)));
      }
      const room = Math.floor((node.width - (share ? 60 : 16)) / 7.1);
      group.append(svg("text", { cls: "title", x: 10, y: 18 }, shortened(node.label.replace(/_[0-9a-f]{8}$/, ""), room)));
      node.lines.forEach((line, n) => group.append(svg("text", { x: 10, y: 36 + 17 * n }, shortened(line, Math.floor((node.width - 16) / 6.6)))));
      if (node.call >= 0) boxes.set(node.call, group);
      layer.append(group);
    });
  }
  function describe(node) {
    if (node.call < 0) return [node.label, node.lines.join(", "), node.source && `source ${node.source}`];
    const call = data.facts.calls[node.call];
    return [node.label, `source ${call.origins.join(", ")}`, data.facts.kernels[call.kernel].schedule, times[node.call] ? format.time(times[node.call]) : ""];
  }
  function hover(k) {
    for (const path of layer.querySelectorAll(".edge")) {
      const edge = edges[path.dataset.edge];
      path.classList.toggle("near", k >= 0 && (edge.source === k || edge.target === k));
    }
  }

  function select(call) {
    if (selected >= 0) boxes.get(selected).classList.remove("selected");
    selected = call;
    remember("graph", call >= 0 ? call : undefined);
    if (call < 0) {
      const kernels = data.facts.kernels.length;
      side.replaceChildren(h("h2", {}, "Fused graph"), h("p", {}, `${format.plural(data.facts.calls.length, "call")} of ${format.plural(kernels, "kernel")}. Each box is one call with the operations that were fused into it; pills are views and joins, which cost no call.`),
        total ? h("p", {}, "The tint and the number are the share of the measured time.") : h("p", { cls: "muted" }, `Not measured: ${data.facts.profile.missing}.`),
        h("p", { cls: "muted" }, "Choose a box; n and p step through the calls."));
      return;
    }
    boxes.get(call).classList.add("selected");
    side.replaceChildren(...kernelCard(call));
  }
  function centre(box) {
    if (!box) return;
    const node = nodes[box.dataset.node];
    view.scale = Math.max(view.scale, 0.8);
    view.x = drawing.clientWidth / 2 - (node.x + node.width / 2) * view.scale;
    view.y = drawing.clientHeight / 2 - (node.y + node.height / 2) * view.scale;
    apply();
  }
  function apply() { layer.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`); }
  function fit(wide) {
    const w = drawing.clientWidth, all = drawing.clientHeight;
    view.scale = Math.min((w - 40) / (width || 1), wide ? 1.1 : (all - 40) / (height || 1), 1.4);
    view.x = (w - width * view.scale) / 2;
    view.y = wide && height * view.scale > all - 40 ? 20 : (all - height * view.scale) / 2;
    apply();
  }
  function scaleBy(factor, x = drawing.clientWidth / 2, y = drawing.clientHeight / 2) {
    const scale = Math.max(0.03, Math.min(4, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    apply();
  }
  function events() {
    const pointers = new Map();
    let moved = 0;
    drawing.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || !event.shiftKey) scaleBy(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
      else { view.x -= event.deltaY; apply(); }
    }, { passive: false });
    drawing.addEventListener("pointerdown", (event) => { pointers.set(event.pointerId, event); moved = 0; });
    drawing.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const others = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
      if (others.length) {
        const gap = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY);
        const box = drawing.getBoundingClientRect();
        scaleBy(gap(event) / (gap(last) || 1), (event.clientX + others[0].clientX) / 2 - box.left, (event.clientY + others[0].clientY) / 2 - box.top);
      } else {
        view.x += event.clientX - last.clientX;
        view.y += event.clientY - last.clientY;
        apply();
      }
      moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
      if (moved > 4 && !drawing.hasPointerCapture(event.pointerId)) drawing.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"]) drawing.addEventListener(end, (event) => pointers.delete(event.pointerId));
    drawing.addEventListener("keydown", (event) => {
      const pan = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      const step = { n: 1, p: -1 }[event.key];
      if (pan) { view.x += pan[0]; view.y += pan[1]; apply(); }
      else if (event.key === "+" || event.key === "=") scaleBy(1.3);
      else if (event.key === "-") scaleBy(1 / 1.3);
      else if (event.key === "0") fit();
      else if (event.key === "w") fit(true);
      else if (step && boxes.size) { const call = (Math.max(selected, step > 0 ? -1 : 0) + step + boxes.size) % boxes.size; select(call); centre(boxes.get(call)); }
      else if (event.key === "Enter" && selected >= 0) go("levels", data.facts.calls[selected].kernel + 1);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }
}

function shortened(text, room) { return text.length > room && room > 3 ? text.slice(0, room - 1) + "…" : text; }

// Seconds of each call, 0 where a branch was not taken or nothing was measured.
function callTimes() {
  const rows = data.facts.profile.calls || [];
  const found = new Array(data.facts.calls.length).fill(0);
  if (rows.length === found.length) rows.forEach((row, k) => { found[k] = row.seconds; });
  return found;
}

// A call and its kernel in words, with the ways to more.
function kernelCard(number) {
  const call = data.facts.calls[number], kernel = data.facts.kernels[call.kernel], seconds = callTimes()[number];
  const row = (data.facts.profile.kernels || []).find((one) => one.kernel === kernel.name);
  const term = (name, value) => value ? [h("dt", {}, name), h("dd", {}, value)] : null;
  return [
    h("h2", { cls: "kernel-name" }, kernel.name),
    h("p", { cls: "actions" }, button("levels", () => go("levels", call.kernel + 1)), button("passes", () => go("passes", call.kernel + 1)), button("memory", () => go("memory", number)), button("time", () => go("time", call.kernel))),
    h("table", { cls: "ops" }, h("thead", {}, h("tr", {}, h("th", {}, "operation"), h("th", {}, "source node"))), h("tbody", {}, kernel.ops.map((op, k) => h("tr", {}, h("td", {}, op), h("td", {}, call.sources[k] || "-"))))),
    h("dl", {}, term("call", `${number} of ${data.facts.calls.length}, ${format.plural(kernel.calls.length, "call")} of this kernel`), term("source nodes", call.origins.join(", ")), term("schedule", kernel.schedule), term("stages", kernel.stages.join(", ")),
      term("work", `${format.count(call.flops)} flop, ${format.bytes(call.bytes)} of operands`), term("time", seconds ? format.time(seconds) : ""), term("of its roof", row ? `${format.percent(row.percent_of_roof)}, bound by ${row.bound}` : ""), term("object", format.bytes(kernel.object))),
  ];
}
