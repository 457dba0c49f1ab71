// One kernel on every level side by side. What a line came from, and what came from it, is marked in all panes.
function levelsView(number) {
  const kernel = data.facts.kernels[number - 1];
  const panes = new Map();
  const about = h("p", { cls: "provenance", "aria-live": "polite" });
  const root = h("section", { cls: "levels" });
  const narrowTabs = segments("level", [["graph", "graph"], ["te", "te"], ["sched", "schedule"], ["loop", "loop"], ["low", "assembly"]], "te", showOnly);
  let low = "asm", pinned = null, unit = null;

  for (const level of ["graph", "te", "sched", "loop", "low"]) {
    const view = new TextView(level === "low" ? "assembly" : LEVELS[level], {
      hover: (line) => pinned || point(level, line),
      leave: () => pinned || point(null),
      pick: (line) => { pinned = pinned && pinned.level === level && pinned.line === line ? null : { level, line }; point(level, line, true); },
    });
    panes.set(level, { view });
  }
  const lowChoice = segments("machine code", [["asm", "assembly"], ["llvm-ir", "LLVM IR"]], low, (key) => { low = key; fill(); });
  const head = (level, extra) => h("h3", { cls: "c-" + (level === "low" ? "asm" : level) }, level === "low" ? "" : LEVELS[level], extra, h("span", { cls: "number" }));
  const pane = (level, extra) => {
    const one = panes.get(level);
    const big = button("⤢", () => one.element.classList.toggle("big"), { cls: "grow", title: "this text alone, or all again", "aria-label": "this text alone, or all again" });
    one.head = head(level, [extra, big]);
    one.element = h("div", { cls: "pane p-" + level, "data-level": level }, one.head, one.view.element);
    return one.element;
  };
  const column = (...inner) => h("div", { cls: "column" }, inner);
  root.append(
    h("div", { cls: "bar" }, unitPicker(number, false, (k) => go("levels", k)), narrowTabs.element, about),
    h("div", { cls: "columns" }, column(pane("graph"), pane("te")), column(pane("sched"), pane("loop")), column(pane("low", lowChoice.element))),
    footer());
  showOnly("te");
  unitOf(number).then((found) => { unit = found; fill(); say(null); });
  return { element: root, focus: () => panes.get("te").view.scroller.focus(), clear: () => { pinned = null; point(null); },
    reveal: (level, text) => reveal(level, text) };

  function footer() {
    const sources = sourcesOf(kernel);
    return h("p", { cls: "foot" }, `${format.plural(kernel.calls.length, "call")} in @main, from `,
      sources.length ? sources.slice(0, 6).join(", ") + (sources.length > 6 ? ` and ${sources.length - 6} more` : "") : "no named source node",
      kernel.schedule ? `. Schedule: ${kernel.schedule}` : "");
  }

  function showOnly(level) {
    root.dataset.only = level;
    for (const [key, one] of panes) one.element && one.element.classList.toggle("only", key === level);
    narrowTabs.set(level);
  }

  function fill() {
    const key = (step, kind) => Object.keys(step.texts).filter((name) => name.startsWith(kind));
    const texts = (level, kind) => { const step = lastStep(unit, level); return step ? key(step, kind).map((name) => textOf(unit, step.texts[name])) : []; };
    const own = unit.steps[0];
    panes.get("graph").view.set(joined(Object.values(own.texts).map((n) => textOf(unit, n))));
    panes.get("te").view.set(joined(texts("te", "te.")));
    panes.get("sched").view.set(joined(texts("te", "sched.")));
    panes.get("loop").view.set(joined(texts("loop", "loop.")));
    panes.get("low").view.set(joined(texts(low, low === "asm" ? "assembly" : "LLVM IR")));
    for (const [level, one] of panes) one.head.querySelector(".number").textContent = one.view.count ? format.plural(one.view.count, "line") : "nothing on this level";
    if (pinned) point(pinned.level, pinned.line);
  }

  // Mark in every pane what a line has to do with; null marks nothing.
  function point(level, line, follow) {
    const tag = level && line < panes.get(level).view.count ? tagAt(level, line) : null;
    for (const [other, one] of panes) {
      one.view.mark(tag ? marksOf(other, one.view.text, level, tag) : null);
      const count = one.view.marked();
      const tab = narrowTabs.buttons.get(other);
      tab.dataset.count = tag && count ? count : "";
      if (tag && (follow || other !== level) && other !== level && !one.view.isInSight()) one.view.show(one.view.firstMarked());
    }
    root.classList.toggle("pinned", !!pinned);
    say(tag, level);
  }
  function tagAt(level, line) {
    const text = panes.get(level).view.text, tag = text.tags[line];
    return tag >= 0 ? unit.tags[tag] : null;
  }
  function marksOf(level, text, from, tag) {
    const known = new Map();
    const marks = new Uint8Array(text.lines.length);
    for (let line = 0; line < marks.length; line++) {
      const other = text.tags[line];
      if (other < 0) continue;
      if (!known.has(other)) known.set(other, related(from, tag, level, unit.tags[other]));
      marks[line] = known.get(other);
    }
    return marks;
  }

  // 2: the one came from the other by its location; 1: they share a stage or a graph operation; 0: neither.
  function related(from, a, level, b) {
    if (a[TAG.line] >= 0 && b[TAG.line] >= 0) {
      if (a[TAG.line] === b[TAG.line]) return 2;
      if (from === "loop" && b[TAG.line] > a[TAG.line] && b[TAG.line] <= a[TAG.end]) return 1;
      return 0;
    }
    if (from === "sched" || level === "sched") {
      const [directive, other] = from === "sched" ? [a, b] : [b, a];
      if (from === level) return a[TAG.directive] === b[TAG.directive] ? 2 : 0;
      const loops = kernel.directive_loops[directive[TAG.directive]] || [];
      if (other[TAG.loop] >= 0) return loops.includes(other[TAG.loop]) ? 2 : 0;
      return shares(directive, other) ? 1 : 0;
    }
    if (a[TAG.op] >= 0 && a[TAG.op] === b[TAG.op] && (a[TAG.stage] < 0 || b[TAG.stage] < 0 || a[TAG.stage] === b[TAG.stage])) return 2;
    return shares(a, b) ? 1 : 0;
  }
  function shares(a, b) {
    if (a[TAG.stage] >= 0 && b[TAG.stage] >= 0) return a[TAG.stage] === b[TAG.stage];
    const [stage, op] = a[TAG.stage] >= 0 ? [a[TAG.stage], b[TAG.op]] : [b[TAG.stage], a[TAG.op]];
    return stage >= 0 && op >= 0 && (kernel.stage_ops[stage] || []).includes(op);
  }

  function say(tag, level) {
    if (!tag) {
      about.replaceChildren(h("span", { cls: "hint" }, "Point at a line, or focus a pane and use ↑ ↓, to see what came from it and what it came from; click or Enter pins it."));
      return;
    }
    const op = tag[TAG.op], stage = tag[TAG.stage];
    const ops = op >= 0 ? [op] : stage >= 0 ? kernel.stage_ops[stage] || [] : [];
    const sources = [...new Set(kernel.calls.flatMap((call) => ops.map((k) => data.facts.calls[call].sources[k])).filter(Boolean))];
    const counts = ["sched", "loop", "low"].filter((one) => one !== level).map((one) => [one, panes.get(one).view.marked()]).filter(([, n]) => n);
    const chip = (cls, text) => h("span", { cls: "chip c-" + cls }, text);
    about.replaceChildren(...[
      sources.length && h("span", { cls: "chip" }, `source ${sources.slice(0, 3).join(", ")}${sources.length > 3 ? ", ..." : ""}`),
      ops.length && chip("graph", ops.map((k) => kernel.ops[k]).join(", ")),
      stage >= 0 && chip("te", `stage ${kernel.stages[stage]}`),
      tag[TAG.line] >= 0 && chip("loop", `line ${tag[TAG.line]} of the loops`),
      tag[TAG.line] >= 0 && level === "loop" && !counts.some(([one]) => one === "low") && chip("asm", "no instruction of its own: folded into others"),
      ...counts.map(([one, n]) => chip(one === "low" ? "asm" : one, `${n} ${one === "low" ? (low === "asm" ? "of assembly" : "of LLVM IR") : one === "loop" ? "of loops" : "directives"}`)),
      pinned && h("span", { cls: "chip" }, "pinned: Esc lets go"),
    ].filter(Boolean));
  }

  async function reveal(level, text) {
    unit = await unitOf(number);
    fill();
    const key = level === "llvm-ir" || level === "asm" || level === "llvm" ? "low" : level;
    if (key === "low" && level !== "llvm") { low = level; lowChoice.set(level); fill(); }
    const one = panes.get(key), line = one.view.text.lines.findIndex((found) => found.includes(text));
    showOnly(key);
    if (line >= 0) { pinned = { level: key, line }; one.view.show(line); one.view.cursor = line; point(key, line, true); }
  }
}

function joined(texts) {
  if (texts.length === 1) return texts[0];
  return { lines: texts.flatMap((one) => one.lines), tags: texts.flatMap((one) => [...one.tags]), ids: texts.flatMap((one) => one.ids) };
}
