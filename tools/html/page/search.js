// Search: kernels, source nodes and operations at once, then the texts of all units.
const search = { run: 0, items: [], at: -1 };

function startSearch() {
  const input = $("search"), results = $("results");
  input.addEventListener("input", () => look(input.value.trim()));
  input.addEventListener("focus", () => input.value.trim() && look(input.value.trim()));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { close(); input.blur(); }
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && search.items.length) { event.preventDefault(); point((search.at + by + search.items.length) % search.items.length); }
    if (event.key === "Enter" && search.items.length) { event.preventDefault(); search.items[Math.max(0, search.at)].open(); close(); input.blur(); }
  });
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".find")) close(); });

  function close() { results.hidden = true; input.setAttribute("aria-expanded", "false"); search.run++; }
  function point(at) {
    search.at = at;
    [...results.querySelectorAll(".hit")].forEach((hit, k) => { hit.setAttribute("aria-selected", String(k === at)); if (k === at) hit.scrollIntoView({ block: "nearest" }); });
  }
  function group(title, hits, more) {
    if (!hits.length) return;
    results.append(h("h4", {}, title));
    for (const hit of hits) {
      search.items.push(hit);
      results.append(h("div", { cls: "hit", role: "option", onclick: () => { hit.open(); close(); } }, h("span", {}, hit.text), h("small", {}, hit.note)));
    }
    if (more > 0) results.append(h("p", { cls: "more" }, `and ${more} more`));
  }
  function shown(all, limit, title) { group(title, all.slice(0, limit), all.length - limit); }

  async function look(text) {
    const run = ++search.run;
    search.items = [];
    search.at = -1;
    results.replaceChildren();
    results.hidden = !text;
    input.setAttribute("aria-expanded", String(!!text));
    if (!text) return;
    const low = text.toLowerCase(), has = (one) => one.toLowerCase().includes(low), { kernels, calls, graph } = data.facts;
    shown(kernels.map((one, k) => ({ text: one.name, note: `${format.plural(one.calls.length, "call")}, ${one.schedule}`, open: () => go("levels", k + 1), hit: has(one.name) || has(one.schedule) })).filter((one) => one.hit), 8, "Kernels");
    const nodes = new Map();
    calls.forEach((call, k) => call.origins.forEach((name) => has(name) && !nodes.has(name) && nodes.set(name, k)));
    shown([...nodes].map(([name, k]) => ({ text: name, note: `in call ${k}, ${kernels[calls[k].kernel].name}`, open: () => go("graph", k) })), 8, "Source nodes");
    const ops = [];
    calls.forEach((call, k) => kernels[call.kernel].ops.forEach((op, n) => has(op) && ops.push({ text: op, note: `${call.sources[n] || "call " + k}, ${kernels[call.kernel].name}`, open: () => go("graph", k) })));
    graph.nodes.forEach((node) => node.call < 0 && has(node.label) && ops.push({ text: node.label, note: node.kind, open: () => go("graph") }));
    shown(ops, 6, "Operations");
    if (text.length < 2) return;
    const status = h("p", { cls: "more" }, "searching the texts ...");
    results.append(status);
    const found = [];
    for (let k = 0; k <= kernels.length && found.length < 200; k++) {
      const unit = await unitOf(k);
      if (run !== search.run) return;
      const matching = new Set();
      unit.lines.forEach((line, n) => { if (line.toLowerCase().includes(low)) matching.add(n); });
      if (matching.size) inUnit(unit, k, matching, found);
      status.textContent = `searching the texts ... ${k} of ${kernels.length}`;
    }
    status.remove();
    shown(found, 40, "Texts");
    if (!search.items.length) results.append(h("p", { cls: "more" }, "nothing found"));
  }
  // The first lines of a unit that match, each at the first step where it stands.
  function inUnit(unit, number, matching, found) {
    const seen = new Set();
    unit.steps.forEach((step, k) => {
      for (const key of step.changed) {
        if (step.texts[key] === undefined) continue;
        for (const n of unit.texts[step.texts[key]].lines) {
          if (!matching.has(n) || seen.has(n) || seen.size > 8) continue;
          seen.add(n);
          const line = unit.lines[n];
          found.push({ text: line.trim().slice(0, 160), note: `${number ? data.facts.kernels[number - 1].name : "module"}, ${step.name}`, open: () => openText(number, k, key, line) });
        }
      }
    });
  }
}

async function openText(number, k, key, line) {
  go("passes", number, k);
  await views.current.reveal(k, key, line);
}
