// Every pass with the text before and after it; passes that changed nothing are folded.
function passesView(number, chosen) {
  const root = h("section", { cls: "passes" });
  const list = h("div", { cls: "steps", role: "listbox", "aria-label": "passes", tabindex: 0 });
  const title = h("div", { cls: "bar inner" });
  const stage = h("div", { cls: "compare" });
  const open = new Set(), note = h("p", { cls: "provenance" }), diffNote = h("span", { cls: "muted" });
  let unit = null, current = chosen, entry = null, whole = false, items = [], views = [];
  root.append(h("div", { cls: "bar" }, unitPicker(number, true, (k) => go("passes", k)), note),
    h("div", { cls: "split" }, list, h("div", { cls: "right" }, title, stage)));
  list.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = items.indexOf(current);
    choose(items[Math.max(0, Math.min(items.length - 1, at + by))]);
  });
  unitOf(number).then((found) => {
    unit = found;
    const steps = unit.steps.slice(1), same = steps.filter((step) => !step.changed.length).length;
    note.textContent = `${steps.length} passes, of which ${same} changed nothing; ${format.time(steps.reduce((sum, step) => sum + step.seconds, 0))}`;
    choose(current > 0 && current < unit.steps.length ? current : Math.max(1, unit.steps.findIndex((step, k) => k && step.changed.length)));
  });
  return { element: root, focus: () => list.focus(), reveal };

  function draw() {
    const rows = [];
    items = [];
    let k = 1, level = "";
    while (k < unit.steps.length) {
      const step = unit.steps[k];
      if (step.level !== level) { level = step.level; rows.push(h("h4", { cls: "c-" + level }, LEVELS[level] || level)); }
      let end = k;
      while (end < unit.steps.length && !unit.steps[end].changed.length && unit.steps[end].level === level) end++;
      if (end > k) {
        const first = k, folded = !open.has(first) && !(current >= k && current < end);
        rows.push(button([folded ? "▸ " : "▾ ", `${end - k} changed nothing`], () => { open.has(first) ? open.delete(first) : open.add(first); draw(); }, { cls: "fold", "aria-expanded": String(!folded) }));
        if (!folded) for (; k < end; k++) rows.push(item(k));
        k = end;
      } else rows.push(item(k++));
    }
    const at = list.scrollTop;
    list.replaceChildren(...rows);
    list.scrollTop = at;
    const own = list.querySelector("[aria-selected=true]");
    if (own) own.scrollIntoView({ block: "nearest" });
  }
  function item(k) {
    const step = unit.steps[k];
    items.push(k);
    return h("div", { cls: "step" + (step.changed.length ? "" : " same"), role: "option", "aria-selected": String(k === current), onclick: () => choose(k) },
      h("span", {}, step.name), h("small", {}, step.seconds ? format.time(step.seconds) : ""));
  }

  function choose(k) {
    current = k;
    remember("passes", number, k);
    draw();
    const step = unit.steps[k];
    const keys = step.changed.length ? step.changed : Object.keys(step.texts);
    if (!keys.includes(entry)) entry = keys.find((key) => step.texts[key] !== undefined && unit.steps[k - 1].texts[key] !== undefined) || keys.find((key) => step.texts[key] !== undefined) || keys[0];
    compare();
  }

  // What stood for an entry before the pass: the same function, or, where a conversion made it, the one of another level.
  function before(step, last) {
    if (last.texts[entry] !== undefined) return entry;
    const name = entry.split(" ").pop().replace(/^@/, "").split(".")[0];
    return Object.keys(last.texts).find((key) => step.texts[key] === undefined && key.includes(name)) || Object.keys(last.texts).find((key) => step.texts[key] === undefined);
  }
  function compare() {
    const step = unit.steps[current], last = unit.steps[current - 1];
    const keys = step.changed.length ? step.changed : Object.keys(step.texts);
    const shown = keys.filter((key) => step.texts[key] !== undefined || !Object.keys(step.texts).some((other) => last.texts[other] === undefined));
    const names = shown.length ? shown : keys;
    if (!names.includes(entry)) entry = names[0];
    const old = before(step, last);
    const a = old === undefined ? null : textOf(unit, last.texts[old]);
    const b = step.texts[entry] === undefined ? null : textOf(unit, step.texts[entry]);
    const conversion = old !== entry && a && b;
    const select = h("select", { "aria-label": "function", onchange: () => { entry = select.value; compare(); } }, names.map((key) => h("option", { value: key, selected: key === entry }, key)));
    diffNote.textContent = step.changed.length ? "" : "unchanged by this pass";
    refill(title, h("b", {}, step.name), names.length > 1 ? select : h("span", { cls: "muted" }, entry || ""),
      !conversion && step.changed.length ? button(whole ? "fold equal lines" : "show all lines", () => { whole = !whole; compare(); }) : null,
      diffNote);
    stage.replaceChildren();
    views = [];
    if (conversion || !step.changed.length) sideBySide(step.changed.length ? a : null, b, conversion ? old : "", last, step);
    else diffed(a, b);
  }

  // Two levels: no lines agree, so what agrees is where they come from.
  function sideBySide(a, b, old, last, step) {
    for (const [text, label] of [[a, `before: ${old}`], [b, step.changed.length ? `after: ${entry}` : entry]]) {
      if (!text) continue;
      const view = new TextView(label, marking(views.length));
      views.push(view);
      stage.append(h("div", { cls: "pane" }, h("h3", {}, label, h("span", { cls: "number" }, format.plural(text.lines.length, "line"))), view.element));
      view.set(text);
    }
  }
  // What a hovered line has to do with is marked in both texts; `fixed` texts scroll together, so they stay in place.
  function marking(from, fixed) {
    const mark = (line) => {
      const tag = unit.tags[views[from].text.tags[line]];
      views.forEach((view, k) => {
        view.mark(tag ? Uint8Array.from(view.text.tags, (n) => (n >= 0 ? alike(tag, unit.tags[n]) : 0)) : null);
        if (tag && !fixed && k !== from && !view.isInSight()) view.show(view.firstMarked());
      });
    };
    return { hover: mark, leave: () => views.forEach((view) => view.mark(null)) };
  }
  function alike(a, b) {
    if (number === 0) return a[0] >= 0 && a[0] === b[0] ? 2 : a[1] >= 0 && a[1] === b[1] ? 2 : 0;
    if (a[TAG.line] >= 0 && b[TAG.line] >= 0) return a[TAG.line] === b[TAG.line] ? 2 : 0;
    if (a[TAG.op] >= 0 && a[TAG.op] === b[TAG.op]) return 2;
    return a[TAG.stage] >= 0 && a[TAG.stage] === b[TAG.stage] ? 1 : 0;
  }

  function diffed(a, b) {
    const empty = { lines: [], ids: [], tags: [] };
    const edits = differences((a || empty).ids, (b || empty).ids);
    const parts = whole ? edits : foldedEdits(edits, 4);
    const added = edits.filter(([kind]) => kind === "add").length, gone = edits.filter(([kind]) => kind === "del").length;
    diffNote.textContent = `${added} lines added, ${gone} removed`;
    const line = (text, k) => (text || empty).lines[k], tagOf = (text, k) => (text || empty).tags[k] ?? -1;
    const make = (label, text) => {
      const view = new TextView(label, marking(views.length, true));
      stage.append(h("div", { cls: "pane" }, h("h3", {}, label), view.element));
      view.set(text);
      views.push(view);
    };
    if (isNarrow()) {
      make("removed and added lines", {
        lines: parts.map(([kind, i, j]) => (kind === "fold" ? `... ${j} equal lines` : kind === "add" ? line(b, j) : line(a, i))),
        kinds: parts.map(([kind]) => kind), numbers: parts.map(([kind, i, j]) => (kind === "fold" ? "" : kind === "add" ? "+" : kind === "del" ? "-" : i + 1)),
        tags: parts.map(([kind, i, j]) => (kind === "fold" ? -1 : kind === "add" ? tagOf(b, j) : tagOf(a, i))) });
      return;
    }
    const rows = aligned(parts);
    const side = (pick, text, kind) => ({
      lines: rows.map((row) => (row.fold ? `... ${row.fold} equal lines` : row[pick] === undefined ? "" : line(text, row[pick]))),
      kinds: rows.map((row) => (row.fold ? "fold" : row[pick] === undefined ? "gap" : row.same ? "same" : kind)),
      numbers: rows.map((row) => (row[pick] === undefined ? "" : row[pick] + 1)), tags: rows.map((row) => (row[pick] === undefined ? -1 : tagOf(text, row[pick]))) });
    make("before", side("a", a, "del"));
    make("after", side("b", b, "add"));
    let busy = false;
    views.forEach((view, k) => view.scroller.addEventListener("scroll", () => {
      if (busy) return;
      busy = true;
      const other = views[1 - k].scroller;
      other.scrollTop = view.scroller.scrollTop;
      other.scrollLeft = view.scroller.scrollLeft;
      requestAnimationFrame(() => { busy = false; });
    }, { passive: true }));
    const first = rows.findIndex((row) => !row.same && !row.fold);
    if (first > 3) views[0].show(first);
  }
  async function reveal(k, key, line) {
    unit = await unitOf(number);
    entry = key;
    whole = true;
    choose(Math.max(1, k));
    const view = views[views.length - 1];
    const row = view ? view.text.lines.indexOf(line) : -1;
    if (row >= 0) { view.cursor = row; view.show(row); }
  }
}

// Myers' greedy differences of two lists: [kind, i, j]; after too many edits the rest counts as replaced.
function differences(a, b) {
  const most = 1500;
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const n = endA - start, m = endB - start, trace = [], at = most + 1;
  const furthest = new Int32Array(2 * most + 3); // by diagonal: how far d edits get
  const isUp = (v, base, k, d) => k === -d || (k !== d && v[base + k - 1] < v[base + k + 1]);
  let found = -1;
  for (let d = 0; d <= Math.min(n + m, most) && found < 0; d++) {
    trace.push(furthest.slice(at - d - 1, at + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = isUp(furthest, at, k, d) ? furthest[at + k + 1] : furthest[at + k - 1] + 1;
      while (x < n && x - k < m && a[start + x] === b[start + x - k]) x++;
      furthest[at + k] = x;
      if (x >= n && x - k >= m) { found = d; break; }
    }
  }
  const middle = [];
  if (found < 0) {
    for (let i = 0; i < n; i++) middle.push(["del", start + i, -1]);
    for (let j = 0; j < m; j++) middle.push(["add", -1, start + j]);
  } else {
    let x = n, y = m;
    for (let d = found; d > 0; d--) {
      const past = trace[d], base = d + 1, k = x - y, up = isUp(past, base, k, d);
      const from = up ? k + 1 : k - 1, fromX = past[base + from], fromY = fromX - from;
      while (x > fromX && y > fromY) middle.push(["same", start + --x, start + --y]);
      middle.push(up ? ["add", -1, start + --y] : ["del", start + --x, -1]);
    }
    while (x > 0 && y > 0) middle.push(["same", start + --x, start + --y]);
    middle.reverse();
  }
  const edits = [];
  for (let k = 0; k < start; k++) edits.push(["same", k, k]);
  edits.push(...middle);
  for (let k = 0; endA + k < a.length; k++) edits.push(["same", endA + k, endB + k]);
  return edits;
}

// Runs of equal lines but for some around a change become one: ["fold", first, count].
function foldedEdits(edits, around) {
  const keep = new Uint8Array(edits.length);
  edits.forEach(([kind], k) => { if (kind !== "same") keep.fill(1, Math.max(0, k - around), k + around + 1); });
  const parts = [];
  for (let k = 0; k < edits.length; k++) {
    if (keep[k]) { parts.push(edits[k]); continue; }
    let end = k;
    while (end < edits.length && !keep[end]) end++;
    if (end - k > 2) { parts.push(["fold", edits[k][1], end - k]); k = end - 1; } else parts.push(edits[k]);
  }
  return parts;
}

// Removed and added lines of one change stand beside each other.
function aligned(parts) {
  const rows = [];
  let k = 0;
  while (k < parts.length) {
    const [kind, i, j] = parts[k];
    if (kind === "same") { rows.push({ a: i, b: j, same: true }); k++; continue; }
    if (kind === "fold") { rows.push({ fold: j }); k++; continue; }
    const gone = [], added = [];
    while (k < parts.length && (parts[k][0] === "add" || parts[k][0] === "del")) { (parts[k][0] === "del" ? gone : added).push(parts[k]); k++; }
    for (let n = 0; n < Math.max(gone.length, added.length); n++) rows.push({ a: gone[n] && gone[n][1], b: added[n] && added[n][2] });
  }
  return rows;
}
