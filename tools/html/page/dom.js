// Elements are made with text nodes only: nothing that comes from a model is ever parsed as markup.
function make(namespace, tag, given, children) {
  const element = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name === "cls" ? "class" : name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}
// A name that may break at its underscores.
const breakable = (name) => name.split("_").flatMap((part, k) => (k ? ["_", h("wbr"), part] : [part]));
const h = (tag, given, ...children) => make(null, tag, given, children);
const svg = (tag, given, ...children) => make("http://www.w3.org/2000/svg", tag, given, children);
// Replace what is in an element; nothing is shown for null and false.
const refill = (element, ...children) => element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
const $ = (id) => document.getElementById(id);

// The tooltip: rows of text near the pointer.
const tip = {
  show(event, lines) {
    const box = $("tip");
    box.replaceChildren(...lines.filter(Boolean).map((line, k) => h("div", { cls: k ? "" : "first" }, line)));
    box.hidden = false;
    const rect = event.target.getBoundingClientRect();
    const x = event.clientX || rect.left + rect.width / 2, y = event.clientY || rect.bottom;
    box.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.offsetWidth - 8)) + "px";
    box.style.top = (y + 18 + box.offsetHeight > innerHeight ? Math.max(4, y - box.offsetHeight - 10) : y + 18) + "px";
  },
  hide() { $("tip").hidden = true; },
};

function button(label, onclick, given) { return h("button", { type: "button", onclick, ...given }, label); }

// A choice among a few: radio buttons that look like a segmented control.
function segments(label, options, current, choose) {
  const buttons = new Map();
  const group = h("div", { cls: "segments", role: "group", "aria-label": label });
  for (const [key, text] of options) {
    const one = button(text, () => { set(key); choose(key); }, { "data-key": key });
    buttons.set(key, one);
    group.append(one);
  }
  function set(key) { for (const [other, one] of buttons) one.setAttribute("aria-pressed", String(other === key)); }
  set(current);
  return { element: group, set, buttons };
}

// The kernel (or the module) that a view shows.
function unitPicker(current, withModule, choose) {
  const kernels = data.facts.kernels;
  const order = kernels.map((_, k) => k);
  const seconds = secondsByKernel();
  order.sort((a, b) => (seconds.get(b) || 0) - (seconds.get(a) || 0));
  const option = (value, text) => h("option", { value, selected: value === current }, text);
  const select = h("select", { "aria-label": "kernel", onchange: () => choose(Number(select.value)) },
    withModule && option(0, "the whole module (graph passes, @main)"),
    order.map((k) => option(k + 1, kernels[k].name + (seconds.has(k) ? `  -  ${format.time(seconds.get(k))}` : ""))));
  const values = [...select.options].map((one) => Number(one.value));
  const move = (by) => choose(values[(values.indexOf(current) + by + values.length) % values.length]);
  return h("div", { cls: "picker" },
    button("‹", () => move(-1), { title: "previous kernel ( [ )", "data-move": "-1" }), select,
    button("›", () => move(1), { title: "next kernel ( ] )", "data-move": "1" }));
}

function secondsByKernel() {
  const found = new Map();
  const names = new Map(data.facts.kernels.map((one, k) => [one.name, k]));
  for (const row of data.facts.profile.kernels || []) found.set(names.get(row.kernel), row.seconds);
  return found;
}

function sourcesOf(kernel) {
  const calls = kernel.calls.map((number) => data.facts.calls[number]);
  return [...new Set(calls.flatMap((call) => call.origins))];
}

const isNarrow = () => matchMedia("(max-width: 860px)").matches;
