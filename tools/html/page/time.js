// The time of each kernel beside what the machine can do: a table, a roofline, a line of calls.
const BOUNDS = { compute: "--b-compute", L2: "--b-l2", L3: "--b-l3", DRAM: "--b-dram" };

function timeView(chosen) {
  const profile = data.facts.profile;
  const root = h("section", { cls: "time" });
  const kernels = data.facts.kernels;
  if (profile.missing) {
    root.append(h("p", { cls: "note" }, `No times: ${profile.missing}.`), workTable());
    return { element: root };
  }
  const index = new Map(kernels.map((one, k) => [one.name, k]));
  const total = profile.seconds;
  const rows = profile.kernels.map((row) => ({ ...row, kernel: index.get(row.kernel), name: row.kernel }));
  let sorted = "seconds", down = true, lit = -1;
  const body = h("tbody", {});
  const columns = [["name", "kernel"], ["seconds", "time"], ["share", ""], ["gflops", "GFLOP/s"], ["percent_of_peak", "of peak"], ["gbytes", "GB/s"], ["percent_of_bandwidth", "of bw"], ["percent_of_roof", "of roof"], ["bound", "bound"]];
  const heads = columns.map(([key, text]) => h("th", { cls: key === "name" || key === "bound" || key === "share" ? "c-" + key : "num c-" + key }, text && button(text, () => { down = sorted === key ? !down : true; sorted = key; fill(); }, { cls: "link" })));
  const plot = h("div", { cls: "roof" });
  const lane = h("div", { cls: "lane" });
  root.append(h("div", { cls: "figures" }, h("div", { cls: "figure" }, h("b", {}, format.time(total)), h("span", {}, "all calls, one by one")), h("div", { cls: "figure wide" }, h("span", {}, profile.machine.text), h("small", {}, "medians; a single call from Python costs about a microsecond more"))),
    lane, h("div", { cls: "halves" }, h("div", { cls: "scroll" }, h("table", { cls: "kernels" }, h("thead", {}, h("tr", {}, heads)), body)), plot));
  fill();
  drawLane();
  new ResizeObserver(() => drawRoof()).observe(plot);
  if (chosen >= 0) light(chosen, true);
  return { element: root, focus: () => { const first = body.querySelector("tr"); if (first) first.focus(); } };

  function fill() {
    const value = (row) => (sorted === "share" ? row.seconds : row[sorted]);
    rows.sort((a, b) => (typeof value(a) === "string" ? value(a).localeCompare(value(b)) : value(b) - value(a)) * (down ? 1 : -1));
    body.replaceChildren(...rows.map((row) => h("tr", { tabindex: 0, "data-kernel": row.kernel, onmouseenter: () => light(row.kernel), onmouseleave: () => light(-1), onfocus: () => light(row.kernel), onclick: () => go("levels", row.kernel + 1),
      onkeydown: (event) => { const near = { ArrowDown: "nextSibling", ArrowUp: "previousSibling" }[event.key]; if (event.key === "Enter") go("levels", row.kernel + 1); else if (near && event.currentTarget[near]) { event.preventDefault(); event.currentTarget[near].focus(); } } },
      h("td", { cls: "c-name" }, h("i", { cls: "dot", style: { "--hue": hue(row.name) } }), row.count > 1 ? `${row.count} × ` : "", breakable(row.name), h("small", {}, kernels[row.kernel].schedule)), h("td", { cls: "num c-seconds" }, format.time(row.seconds)),
      h("td", { cls: "c-share" }, h("div", { cls: "share" }, h("div", { style: { width: (100 * row.seconds) / rows.reduce((most, one) => Math.max(most, one.seconds), 0) + "%" } }), h("span", {}, format.percent((100 * row.seconds) / total)))),
      h("td", { cls: "num c-gflops" }, row.flops ? row.gflops.toFixed(1) : "-"), h("td", { cls: "num c-percent_of_peak" }, row.flops ? format.percent(row.percent_of_peak) : "-"), h("td", { cls: "num c-gbytes" }, row.gbytes.toFixed(1)), h("td", { cls: "num c-percent_of_bandwidth" }, format.percent(row.percent_of_bandwidth)),
      h("td", { cls: "num c-percent_of_roof" }, h("b", { cls: row.percent_of_roof >= 75 ? "good" : row.percent_of_roof >= 40 ? "fair" : "poor" }, format.percent(row.percent_of_roof))), h("td", { cls: "c-bound" }, h("span", { cls: "bound", style: { "--c": `var(${BOUNDS[row.bound] || "--muted"})` } }, row.bound)))));
  }
  function light(kernel, scroll) {
    lit = kernel;
    for (const one of root.querySelectorAll("[data-kernel]")) {
      const is = Number(one.dataset.kernel) === kernel;
      one.classList.toggle("lit", is);
      if (is && scroll && one.tagName === "TR") { one.scrollIntoView({ block: "center" }); }
    }
  }
  function drawLane() {
    const times = callTimes(), sum = times.reduce((a, b) => a + b, 0);
    if (!sum) return;
    lane.append(...times.map((seconds, k) => {
      const kernel = data.facts.calls[k].kernel;
      return h("button", { type: "button", cls: "slot", tabindex: -1, "aria-label": `call ${k}`, "data-kernel": kernel, style: { "flex-grow": seconds / sum, "--hue": hue(kernels[kernel].name) }, onmousemove: (event) => { light(kernel); tip.show(event, [`call ${k}: ${kernels[kernel].name}`, `${format.time(seconds)}, ${format.percent((100 * seconds) / sum)}`, data.facts.calls[k].origins.join(", ")]); }, onmouseleave: () => { light(-1); tip.hide(); }, onclick: () => go("graph", k) });
    }));
  }
  function drawRoof() {
    const width = plot.clientWidth, height = plot.clientHeight;
    if (!width || !height) return;
    const left = 46, right = 10, top = 12, bottom = 34, peak = profile.machine.gflops, levels = profile.machine.levels;
    const drawn = rows.filter((row) => row.bytes);
    const work = drawn.filter((row) => row.flops);
    const decades = (low, high) => [Math.floor(2 * Math.log10(low)) / 2, Math.ceil(2 * Math.log10(high)) / 2];
    const ridges = levels.map((level) => peak / level.gbytes);
    const xs = [...work.map((row) => row.intensity), ...ridges];
    const [x0, x1] = decades(Math.min(...xs) / 2, Math.max(...xs) * 2);
    const heightOf = (row) => (row.flops ? row.gflops : row.gbytes * 10 ** x0);
    const ys = [...drawn.map(heightOf), peak];
    const [y0, y1] = decades(Math.min(...ys) / 1.5, Math.max(...ys) * 1.5);
    const x = (v) => left + ((width - left - right) * (Math.log10(v) - x0)) / (x1 - x0), y = (v) => height - bottom - ((height - bottom - top) * (Math.log10(v) - y0)) / (y1 - y0);
    const parts = [];
    for (let k = Math.ceil(x0); k <= x1; k++) parts.push(svg("line", { cls: "grid", x1: x(10 ** k), x2: x(10 ** k), y1: top, y2: height - bottom }), svg("text", { cls: "axis", x: x(10 ** k), y: height - bottom + 14, "text-anchor": "middle" }, String(Number((10 ** k).toPrecision(1)))));
    for (let k = Math.ceil(y0); k <= y1; k++) parts.push(svg("line", { cls: "grid", x1: left, x2: width - right, y1: y(10 ** k), y2: y(10 ** k) }), svg("text", { cls: "axis", x: left - 5, y: y(10 ** k) + 4, "text-anchor": "end" }, String(Number((10 ** k).toPrecision(1)))));
    const roof = (name, colour, a, b) => {
      parts.push(svg("line", { cls: "roofline", style: { stroke: `var(${colour})` }, x1: x(a[0]), y1: y(a[1]), x2: x(b[0]), y2: y(b[1]) }));
      const flat = a[1] === b[1], angle = (Math.atan2(y(b[1]) - y(a[1]), x(b[0]) - x(a[0])) * 180) / Math.PI;
      const px = flat ? x(b[0]) - 4 : x(a[0]) + (x(b[0]) - x(a[0])) * 0.3, py = (flat ? y(b[1]) : y(a[1]) + (y(b[1]) - y(a[1])) * 0.3) - 5;
      parts.push(svg("text", { cls: "axis", style: { fill: `var(${colour})` }, x: px, y: py, "text-anchor": flat ? "end" : "start", transform: flat ? undefined : `rotate(${angle} ${px} ${py})` }, name));
    };
    roof(`peak ${peak.toFixed(0)}`, "--b-compute", [10 ** x0, peak], [10 ** x1, peak]);
    for (const level of levels) {
      const start = Math.max(10 ** x0, 10 ** y0 / level.gbytes);
      roof(`${level.name} ${level.gbytes.toFixed(0)} GB/s`, BOUNDS[level.name] || "--muted", [start, start * level.gbytes], [peak / level.gbytes, peak]);
    }
    for (const row of [...drawn].sort((a, b) => b.seconds - a.seconds)) {
      const px = x(row.flops ? row.intensity : 10 ** x0), py = y(heightOf(row));
      parts.push(svg("circle", { cls: "kernel" + (row.flops ? "" : " ring"), cx: px, cy: py, r: Math.max(3.5, Math.sqrt((3200 * row.seconds) / total / 3.14)), style: { "--c": `var(${BOUNDS[row.bound] || "--muted"})` }, "data-kernel": row.kernel, onmousemove: (event) => { light(row.kernel); tip.show(event, [row.name, `${format.time(row.seconds)}, ${row.gflops.toFixed(1)} GFLOP/s, ${row.gbytes.toFixed(1)} GB/s`, `${format.percent(row.percent_of_roof)} of its roof, bound by ${row.bound}`, kernels[row.kernel].schedule]); }, onmouseleave: () => { light(-1); tip.hide(); }, onclick: () => go("levels", row.kernel + 1) }));
    }
    parts.push(svg("text", { cls: "axis", x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "flop a byte"), svg("text", { cls: "axis", x: 12, y: (top + height - bottom) / 2, transform: `rotate(-90 12 ${(top + height - bottom) / 2})`, "text-anchor": "middle" }, "GFLOP/s"));
    plot.replaceChildren(svg("svg", { width, height, role: "img", "aria-label": "roofline" }, parts));
    if (lit >= 0) light(lit);
  }
  function workTable() {
    const order = kernels.map((_, k) => k), flops = (k) => kernels[k].calls.reduce((sum, call) => sum + (data.facts.calls[call].flops || 0), 0);
    order.sort((a, b) => flops(b) - flops(a));
    return h("table", { cls: "kernels" }, h("thead", {}, h("tr", {}, h("th", {}, "kernel"), h("th", { cls: "num" }, "calls"), h("th", { cls: "num" }, "flop of a call"), h("th", { cls: "num" }, "bytes of a call"))),
      h("tbody", {}, order.filter((k) => kernels[k].calls.length).map((k) => { const call = data.facts.calls[kernels[k].calls[0]]; return h("tr", { onclick: () => go("levels", k + 1) }, h("td", { cls: "c-name" }, kernels[k].name, h("small", {}, kernels[k].schedule)), h("td", { cls: "num" }, kernels[k].calls.length), h("td", { cls: "num" }, format.count(call.flops)), h("td", { cls: "num" }, format.bytes(call.bytes))); })));
  }
}
