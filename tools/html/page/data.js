"use strict";
// The data of the page: `facts` at once, the texts of a unit when they are first shown.
const data = { facts: null, units: new Map() };

async function decode(id) {
  const element = document.getElementById(id);
  const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Unit 0 is the module; unit k + 1 is kernel k.
function unitOf(number) {
  if (!data.units.has(number)) data.units.set(number, decode("unit" + number));
  return data.units.get(number);
}

// A text of a unit: its lines, their numbers in the pool, and the number of each line's tag (-1: none).
function textOf(unit, number) {
  const stored = unit.texts[number];
  if (!stored.view) {
    const tags = new Int32Array(stored.lines.length);
    let at = 0;
    for (let k = 0; k < stored.tags.length; k += 2) {
      tags.fill(stored.tags[k], at, at + stored.tags[k + 1]);
      at += stored.tags[k + 1];
    }
    stored.view = { unit, ids: stored.lines, lines: stored.lines.map((n) => unit.lines[n]), tags };
  }
  return stored.view;
}

// The last step of a unit on a level, and its texts.
function lastStep(unit, level) {
  return unit.steps.findLast((step) => step.level === level);
}

// The fields of a kernel line's tag (tools/html/origins.py).
const TAG = { line: 0, stage: 1, op: 2, loop: 3, directive: 4, end: 5 };

const LEVELS = { graph: "graph", main: "@main on buffers", te: "te", sched: "schedule", loop: "loop", llvm: "llvm dialect", "llvm-ir": "LLVM IR", asm: "assembly" };

const format = {
  bytes(n) {
    if (n === null || n === undefined) return "symbolic";
    for (const unit of ["B", "KiB", "MiB"]) {
      if (n < 1024) return (unit === "B" ? n : n.toFixed(1)) + " " + unit;
      n /= 1024;
    }
    return n.toFixed(2) + " GiB";
  },
  time(seconds) {
    const us = seconds * 1e6;
    return us >= 1e6 ? seconds.toFixed(2) + " s" : us >= 1000 ? (us / 1000).toFixed(2) + " ms" : us.toFixed(us < 10 ? 2 : 1) + " µs";
  },
  count(n) {
    if (n === null || n === undefined) return "symbolic";
    return n >= 1e9 ? (n / 1e9).toFixed(2) + " G" : n >= 1e6 ? (n / 1e6).toFixed(2) + " M" : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : String(n);
  },
  percent(n) { return n.toFixed(n < 10 ? 1 : 0) + "%"; },
  plural(n, what) { return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`; },
};

// A number that belongs to a kind of operation, so that colours of a kind agree in all views.
function hue(name) {
  let sum = 7;
  for (const c of name.replace(/_[0-9a-f]{8}$/, "")) sum = (sum * 31 + c.charCodeAt(0)) % 3600;
  return (sum * 47) % 360;
}
