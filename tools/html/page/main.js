// The page: tabs, keys, and the address of what is shown, so that "back" works.
const TABS = [["overview", "Overview"], ["graph", "Graph"], ["levels", "Levels"], ["passes", "Passes"], ["memory", "Memory"], ["time", "Time"]];
const views = { current: null, name: "" };

function busiest() {
  const seconds = secondsByKernel();
  const order = data.facts.kernels.map((_, k) => k).sort((a, b) => (seconds.get(b) || 0) - (seconds.get(a) || 0) || data.facts.kernels[b].ops.length - data.facts.kernels[a].ops.length);
  return order.length ? order[0] + 1 : 0;
}

function go(name, ...numbers) {
  const address = "#" + [name, ...numbers.filter((n) => n !== undefined)].join("/");
  if (location.hash !== address) { history.pushState(null, "", address); route(); } else route();
}
// Note in the address what a view shows now.
function remember(name, ...numbers) {
  if (views.name === name) history.replaceState(null, "", "#" + [name, ...numbers.filter((n) => n !== undefined)].join("/"));
}

function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const known = TABS.some(([key]) => key === name) ? name : "overview";
  const number = (k, limit, otherwise) => { const n = Number.parseInt(rest[k], 10); return Number.isInteger(n) && n >= 0 && n < limit ? n : otherwise; };
  const { kernels, calls } = data.facts;
  tip.hide();
  views.name = known;
  for (const tab of document.querySelectorAll("#tabs [role=tab]")) tab.setAttribute("aria-selected", String(tab.dataset.tab === known));
  const shown = {
    overview: () => overviewView(),
    graph: () => graphView(number(0, calls.length, -1)),
    levels: () => (kernels.length ? levelsView(Math.max(1, number(0, kernels.length + 1, busiest()))) : nothing()),
    passes: () => passesView(number(0, kernels.length + 1, 0), number(1, 1e6, -1)),
    memory: () => memoryView(number(0, calls.length, -1)),
    time: () => timeView(number(0, kernels.length, -1)),
  }[known]();
  views.current = shown;
  $("view").replaceChildren(shown.element);
  $("view").className = "v-" + known;
}
function nothing() { return { element: h("p", { cls: "note" }, "The model has no kernels: its outputs are its inputs or weights.") }; }

function overviewView() {
  const { model, kernels, calls, profile, memory } = data.facts;
  const figure = (value, name, note) => h("div", { cls: "figure" }, h("b", {}, value), h("span", {}, name), note && h("small", {}, note));
  const card = (name, title, ...text) => h("a", { cls: "card", href: "#" + name }, h("h3", {}, title), h("p", {}, text));
  const levels = Object.entries(model.ops);
  return { element: h("section", { cls: "overview" },
    h("h1", {}, model.name),
    h("p", { cls: "lead" }, `compiled by mlc ${model.version} for ${model.target.cpu}, ${format.plural(model.threads, "thread")}, ${model.precision}`),
    h("div", { cls: "figures" }, figure(calls.length, "kernel calls", format.plural(kernels.length, "different kernel")),
      !profile.missing && figure(format.time(profile.seconds), "all calls", "one by one, medians"),
      !memory.missing && figure(format.bytes(memory.bytes), "workspace", memory.open ? "of these sizes" : `${format.bytes(memory.sum)} without sharing`),
      figure(format.bytes(model.weights_bytes), "weights"), figure(model.seconds.toFixed(1) + " s", "to compile")),
    h("div", { cls: "cards" },
      card("graph", "Graph", "What was fused with what, kernels as boxes of nodes, tinted by time."),
      card("levels", "Levels", "One kernel from the graph to the assembly. Point at a line to see what came from it."),
      card("passes", "Passes", "The IR before and after every pass."),
      card("memory", "Memory", "Which bytes hold what, call by call."),
      card("time", "Time", "Each kernel's time beside what the machine can do.")),
    profile.missing ? null : h("div", { cls: "top" }, h("h3", {}, "Where the time goes"), profile.kernels.slice(0, 6).map((row) => {
      const index = kernels.findIndex((one) => one.name === row.kernel);
      return h("a", { cls: "line", href: "#levels/" + (index + 1) }, h("span", { cls: "name" }, row.count > 1 ? `${row.count} × ` : "", row.kernel), h("span", { cls: "track" }, h("span", { style: { width: (100 * row.seconds) / profile.kernels[0].seconds + "%" } })), h("span", { cls: "num" }, format.time(row.seconds)), h("span", { cls: "num muted" }, format.percent((100 * row.seconds) / profile.seconds)));
    })),
    h("div", { cls: "two" },
      h("div", {}, h("h3", {}, "Inputs and outputs"), h("table", {}, h("tbody", {}, model.inputs.map((one) => h("tr", {}, h("td", { cls: "muted" }, "input"), h("td", {}, one))), model.outputs.map((one) => h("tr", {}, h("td", { cls: "muted" }, "output"), h("td", {}, one))),
        model.symbols.map(([name, low, high, step]) => h("tr", {}, h("td", { cls: "muted" }, "size"), h("td", {}, `${name}: ${low} ${high < 2 ** 31 ? "to " + high : "on"}${step > 1 ? ` in steps of ${step}` : ""}`))),
        Object.entries(model.at).map(([name, shape]) => h("tr", {}, h("td", { cls: "muted" }, "measured at"), h("td", {}, `${name}: ${shape}`)))))),
      h("div", {}, h("h3", {}, "Operations by level"), h("table", {}, h("tbody", {}, levels.map(([name, n]) => h("tr", {}, h("td", { cls: "muted" }, name), h("td", { cls: "num" }, n.toLocaleString("en")))))))),
    model.warnings.length ? h("details", {}, h("summary", {}, format.plural(model.warnings.length, "warning")), model.warnings.map((text) => h("p", { cls: "muted" }, text))) : null,
    h("p", { cls: "muted keys" }, "Keys: 1 to 6 change the view, / searches, ? lists all keys.")) };
}

const KEYS = [["1 ... 6", "the views"], ["/", "search"], ["[  ]", "previous, next kernel (levels, passes)"], ["↑ ↓ PgUp PgDn", "lines of a focused text; passes; rows"], ["Enter", "pin the line; open the kernel"], ["Esc", "let go"], ["+ − 0 w, arrows", "zoom and pan the graph"], ["n p", "next, previous call in the graph"], ["← →", "calls in the memory view"], ["?", "this list"]];

function startKeys() {
  const help = $("help");
  help.append(h("h2", {}, "Keys"), h("table", {}, h("tbody", {}, KEYS.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what))))), h("form", { method: "dialog" }, h("button", {}, "close")));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const tab = TABS[Number(event.key) - 1];
    if (tab) { go(tab[0]); focusView(); }
    else if (event.key === "/") $("search").focus();
    else if (event.key === "?") help.showModal();
    else if (event.key === "Escape" && views.current.clear) views.current.clear();
    else if (event.key === "[" || event.key === "]") { const one = document.querySelector(`[data-move="${event.key === "[" ? -1 : 1}"]`); if (one) one.click(); }
    else return;
    event.preventDefault();
  });
}
function focusView() { if (views.current.focus) requestAnimationFrame(() => views.current.focus()); }

async function start() {
  if (!window.DecompressionStream) { $("view").textContent = "This report needs a browser of 2023 or later (DecompressionStream)."; return; }
  data.facts = await decode("facts");
  $("model-name").textContent = data.facts.model.name;
  $("tabs").append(...TABS.map(([key, text], k) => h("button", { type: "button", role: "tab", "data-tab": key, title: `${text} (${k + 1})`, onclick: () => { go(key); focusView(); } }, text)));
  addEventListener("popstate", route);
  startSearch();
  startKeys();
  route();
  document.body.dataset.ready = "1";
}
start();
