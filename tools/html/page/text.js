// A text of which only the lines in sight are elements; lines are marked 2 (came from it) or 1 (related).
const LINE = 18;
const TOKEN = /("(?:[^"\\]|\\.)*")|(%[\w.$#-]+)|(@[\w.$-]+|"[^"]*")|(\b(?:tensor|memref|vector)<[^\s]*>|\b[fiu]\d+\b|\bindex\b)|(\b(?:func|te|sched|loop|graph|arith|math|llvm|llvm_ext|runtime|memref|builtin|scf)\.[\w.]+)|(-?\b\d[\w.+]*)/g;

function coloured(line) {
  const row = document.createDocumentFragment();
  let at = 0;
  if (line.length < 2000) {
    for (const found of line.matchAll(TOKEN)) {
      const kind = ["s", "v", "y", "t", "o", "n"][found.slice(1).findIndex((group) => group !== undefined)];
      if (found.index > at) row.append(line.slice(at, found.index));
      row.append(h("i", { cls: "k-" + kind }, found[0]));
      at = found.index + found[0].length;
    }
  }
  row.append(line.slice(at));
  return row;
}

class TextView {
  // events: hover(line), leave(), pick(line); a line is counted from 0
  constructor(label, events) {
    this.events = events || {};
    this.rows = new Map();
    this.marks = null;
    this.cursor = -1;
    this.space = h("div", { cls: "space" });
    this.scroller = h("div", { cls: "code", tabindex: 0, role: "listbox", "aria-label": label }, this.space);
    this.map = h("canvas", { cls: "map", width: 10, "aria-hidden": "true" });
    this.element = h("div", { cls: "text" }, this.scroller, this.map);
    this.scroller.addEventListener("scroll", () => this.render(), { passive: true });
    this.scroller.addEventListener("mousemove", (event) => this.onHover(event));
    this.scroller.addEventListener("mouseleave", () => { this.hovered = -1; this.events.leave && this.events.leave(); });
    this.scroller.addEventListener("click", (event) => { const line = this.lineAt(event); if (line >= 0) { this.cursor = line; this.events.pick && this.events.pick(line); this.paint(); } });
    this.scroller.addEventListener("keydown", (event) => this.onKey(event));
    this.map.addEventListener("click", (event) => this.show(Math.floor((event.offsetY / this.map.clientHeight) * Math.max(this.count, this.map.clientHeight / LINE))));
    new ResizeObserver(() => { this.render(); this.drawMap(); }).observe(this.scroller);
    this.set({ lines: [], tags: [] });
  }
  get count() { return this.text.lines.length; }
  set(text) {
    this.text = text;
    this.marks = null;
    this.cursor = -1;
    const longest = text.lines.reduce((most, line) => Math.max(most, line.length), 0);
    const numbers = text.numbers ? text.numbers.reduce((most, n) => Math.max(most, Number(n) || 0), 0) : text.lines.length;
    this.digits = Math.max(2, String(numbers).length);
    this.space.style.height = text.lines.length * LINE + "px";
    this.space.style.width = `calc(${Math.min(longest, 4000) + this.digits + 4} * 1ch)`;
    this.clear();
  }
  clear() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.render();
    this.drawMap();
  }
  lineAt(event) {
    const row = event.target.closest(".row");
    return row ? Number(row.dataset.line) : -1;
  }
  onHover(event) {
    const line = this.lineAt(event);
    if (line === this.hovered) return;
    this.hovered = line;
    if (line >= 0 && this.events.hover) this.events.hover(line);
  }
  onKey(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / LINE) - 1);
    const to = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 }[event.key];
    if (to === undefined) {
      if (event.key === "Enter" && this.cursor >= 0 && this.events.pick) this.events.pick(this.cursor);
      return;
    }
    event.preventDefault();
    this.cursor = Math.max(0, Math.min(this.count - 1, (this.cursor < 0 ? Math.floor(this.scroller.scrollTop / LINE) - (to > 0 ? 1 : 0) : this.cursor) + to));
    this.show(this.cursor, true);
    if (this.events.hover) this.events.hover(this.cursor);
    this.paint();
  }
  // Bring a line into sight; with `near` only as far as needed.
  show(line, near) {
    const top = line * LINE, height = this.scroller.clientHeight, at = this.scroller.scrollTop;
    if (near && top >= at && top + LINE <= at + height) return;
    this.scroller.scrollTop = near ? (top < at ? top : top + LINE * 2 - height) : top - height / 3;
    this.render();
  }
  mark(levels) {
    this.marks = levels;
    this.paint();
    this.drawMap();
  }
  marked() { return this.marks ? this.marks.reduce((n, mark) => n + (mark ? 1 : 0), 0) : 0; }
  // The first line of the strongest mark.
  firstMarked() {
    if (!this.marks) return -1;
    const strong = this.marks.indexOf(2);
    return strong >= 0 ? strong : this.marks.indexOf(1);
  }
  isInSight() {
    if (!this.marks) return true;
    const first = Math.floor(this.scroller.scrollTop / LINE), last = first + this.scroller.clientHeight / LINE;
    const wanted = this.marks.includes(2) ? 2 : 1;
    for (let k = first; k < last && k < this.count; k++) if (this.marks[k] >= wanted) return true;
    return false;
  }
  render() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / LINE) - 8);
    const last = Math.min(this.count, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / LINE) + 8);
    for (const [line, row] of this.rows) {
      if (line < first || line >= last) { row.remove(); this.rows.delete(line); }
    }
    for (let line = first; line < last; line++) {
      if (this.rows.has(line)) continue;
      const row = h("div", { cls: "row", "data-line": line, role: "option", style: { top: line * LINE + "px" } },
        h("span", { cls: "no", style: { width: this.digits + 1 + "ch" } }, this.text.numbers ? this.text.numbers[line] : line + 1), this.text.kinds && this.text.kinds[line] === "fold" ? this.text.lines[line] : coloured(this.text.lines[line]));
      if (this.text.kinds) row.classList.add("d-" + this.text.kinds[line]);
      this.rows.set(line, row);
      this.space.append(row);
    }
    this.paint();
  }
  paint() {
    for (const [line, row] of this.rows) {
      const mark = this.marks ? this.marks[line] : 0;
      row.classList.toggle("m2", mark === 2);
      row.classList.toggle("m1", mark === 1);
      row.classList.toggle("cursor", line === this.cursor);
    }
  }
  drawMap() {
    const height = this.map.clientHeight || 1;
    this.map.height = height;
    const pen = this.map.getContext("2d"), style = getComputedStyle(document.documentElement);
    pen.clearRect(0, 0, 10, height);
    const all = Math.max(this.count, height / LINE);
    const draw = (line, colour) => { pen.fillStyle = colour; pen.fillRect(0, (line / all) * height, 10, Math.max(2, height / all)); };
    const kinds = this.text.kinds;
    if (kinds) kinds.forEach((kind, line) => { if (kind === "add" || kind === "del") draw(line, style.getPropertyValue(kind === "add" ? "--green" : "--red")); });
    if (!this.marks) return;
    for (const [mark, name] of [[1, "--soft"], [2, "--strong"]]) {
      const colour = style.getPropertyValue(name);
      for (let line = 0; line < this.count; line++) if (this.marks[line] === mark) draw(line, colour);
    }
  }
}
