// Compares two sources line by line and draws them side by side.
import { el } from "./dom.js";
import { highlightedLines } from "./highlight.js";

const CELLS = 9_000_000; // of the table of common lengths: beyond it, lines that occur once are the anchors
const CONTEXT = 3;
const AT_ONCE = 5000; // rows: a kernel may have half a million lines, and a browser stands still while it draws them

// Gives pairs [i, j]: line i of a is line j of b; i or j is null where the other side lacks it.
export function align(a, b) {
  const pairs = [];
  walk(a, b, { from: [0, 0], to: [a.length, b.length] }, pairs);
  return pairs;
}

function walk(a, b, { from, to }, pairs) {
  let [i, j] = from;
  let [m, n] = to;
  while (i < m && j < n && a[i] === b[j]) pairs.push([i++, j++]);
  let tail = 0;
  while (m > i && n > j && a[m - 1] === b[n - 1]) { m -= 1; n -= 1; tail += 1; }
  if (i === m || j === n) replace(i, m, j, n, pairs);
  else if ((m - i) * (n - j) <= CELLS) common(a, b, { i, j, m, n }, pairs);
  else anchored(a, b, { i, j, m, n }, pairs);
  for (let at = 0; at < tail; at += 1) pairs.push([m + at, n + at]);
}

function replace(i, m, j, n, pairs) {
  for (let at = i; at < m; at += 1) pairs.push([at, null]);
  for (let at = j; at < n; at += 1) pairs.push([null, at]);
}

function common(a, b, { i, j, m, n }, pairs) {
  const width = n - j + 1;
  const lengths = new Uint16Array((m - i + 1) * width);
  for (let x = m - 1; x >= i; x -= 1) {
    for (let y = n - 1; y >= j; y -= 1) {
      const at = (x - i) * width + (y - j);
      lengths[at] = a[x] === b[y] ? lengths[at + width + 1] + 1 : Math.max(lengths[at + width], lengths[at + 1]);
    }
  }
  let [x, y] = [i, j];
  while (x < m && y < n) {
    const at = (x - i) * width + (y - j);
    if (a[x] === b[y]) pairs.push([x++, y++]);
    else if (lengths[at + width] >= lengths[at + 1]) pairs.push([x++, null]);
    else pairs.push([null, y++]);
  }
  replace(x, m, y, n, pairs);
}

function anchored(a, b, { i, j, m, n }, pairs) {
  const once = (lines, low, high) => {
    const seen = new Map();
    for (let at = low; at < high; at += 1) seen.set(lines[at], seen.has(lines[at]) ? -1 : at);
    return seen;
  };
  const [left, right] = [once(a, i, m), once(b, j, n)];
  let [x, y] = [i, j];
  for (const [line, at] of left) {
    const other = right.get(line) ?? -1;
    if (at < x || other < y) continue;
    walk(a, b, { from: [x, y], to: [at, other] }, pairs);
    pairs.push([at, other]);
    [x, y] = [at + 1, other + 1];
  }
  if (x === i && y === j) replace(i, m, j, n, pairs);
  else walk(a, b, { from: [x, y], to: [m, n] }, pairs);
}

// Puts lines that were replaced beside those that replace them: rows of {left, right, same}.
function sideBySide(pairs) {
  const rows = [];
  let [gone, come] = [[], []];
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at += 1) {
      rows.push({ left: gone[at] ?? null, right: come[at] ?? null, same: false });
    }
    [gone, come] = [[], []];
  };
  for (const [i, j] of pairs) {
    if (i === null) come.push(j);
    else if (j === null) gone.push(i);
    else {
      flush();
      rows.push({ left: i, right: j, same: true });
    }
  }
  flush();
  return rows;
}

function folded(rows, all) {
  if (all) return rows.map((row) => ({ row }));
  const near = rows.map((_, at) => rows.slice(Math.max(at - CONTEXT, 0), at + CONTEXT + 1).some((row) => !row.same));
  const parts = [];
  rows.forEach((row, at) => {
    if (near[at]) parts.push({ row });
    else if (parts.length && parts[parts.length - 1].hidden) parts[parts.length - 1].hidden.push(row);
    else parts.push({ hidden: [row] });
  });
  return parts;
}

// Marks what two lines that replace each other do not share; null where they share too little to point at.
function marked(tag, text, other) {
  let [start, end] = [0, 0];
  while (start < Math.min(text.length, other.length) && text[start] === other[start]) start += 1;
  while (end < Math.min(text.length, other.length) - start && text.at(-1 - end) === other.at(-1 - end)) end += 1;
  if (start + end < text.length / 3) return null;
  return [text.slice(0, start), el(tag, { class: "part" }, text.slice(start, text.length - end)), text.slice(text.length - end)];
}

export function drawDiff(a, b, { all }) {
  const [left, right] = [a.source.split("\n"), b.source.split("\n")];
  const [leftInk, rightInk] = [highlightedLines(a.source), highlightedLines(b.source)];
  const rows = sideBySide(align(left, right));
  const cell = (row, side) => {
    const at = row[side];
    const [lines, ink] = side === "left" ? [left, leftInk] : [right, rightInk];
    const [tag, kind] = side === "left" ? ["del", "del"] : ["ins", "add"];
    if (at === null) return [el("td", { class: "at" }), el("td", { class: "line" })];
    const paired = !row.same && row.left !== null && row.right !== null;
    const parts = paired ? marked(tag, lines[at], side === "left" ? right[row.right] : left[row.left]) : null;
    const body = row.same ? ink[at]() : parts ?? [el(tag, {}, ink[at]())];
    return [el("td", { class: `at ${row.same ? "" : kind}` }, String(at + 1)), el("td", { class: `line ${row.same ? "" : kind}` }, body)];
  };
  const line = (row) => el("tr", { class: row.same ? "same" : null }, cell(row, "left"), cell(row, "right"));
  const body = el("tbody");
  const gap = (hidden, words) => {
    const rest = hidden.slice(AT_ONCE);
    const open = () => row.replaceWith(...hidden.slice(0, AT_ONCE).map(line), ...(rest.length ? [gap(rest, words)] : []));
    const row = el("tr", { class: "skip-row" }, el("td", { colspan: 4 }, el("button", { type: "button", onclick: open }, `${hidden.length} ${words}`)));
    return row;
  };
  const parts = folded(rows, all);
  for (const part of parts.slice(0, AT_ONCE)) body.append(part.row ? line(part.row) : gap(part.hidden, "equal lines"));
  const more = parts.slice(AT_ONCE).flatMap((part) => part.hidden ?? [part.row]);
  if (more.length) body.append(gap(more, "more lines"));
  const changed = rows.filter((row) => !row.same).length;
  return el("div", { class: "diff", tabindex: 0, role: "region", "aria-label": `Diff, ${changed} lines differ` }, el("table", {},
    el("colgroup", {}, el("col", { class: "at" }), el("col"), el("col", { class: "at" }), el("col")),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", colspan: 2 }, a.name), el("th", { scope: "col", colspan: 2 }, b.name))),
    body));
}
