// Compares two entries problem by problem: score, scatter and table.
import { entryData, fetchJson } from "./data.js";
import { byId, el, root, svg } from "./dom.js";
import * as format from "./format.js";
import * as state from "./state.js";
import { sortable } from "./table.js";

const fields = Object.fromEntries(["board", "a", "b", "level", "outcome"].map((id) => [id, byId(id)]));
const WORDS = { a: "A wins", b: "B wins", tie: "tie", neither: "neither correct" };
const SPAN = [1 / 8, 16];
let entries = [];
let turn = 0;

// A win needs intervals that do not meet; a correct kernel wins over one that is not.
export function outcome(a, b) {
  const [left, right] = [format.fast(a), format.fast(b)];
  if (!left && !right) return "neither";
  if (!left || !right) return left ? "a" : "b";
  if (a.speedup_ci95[0] > b.speedup_ci95[1]) return "a";
  return b.speedup_ci95[0] > a.speedup_ci95[1] ? "b" : "tie";
}

export function pairUp(a, b) {
  const first = (data) => new Map(data.rows.map((row) => [format.problemOf(row.key), row]).filter(([key]) => key.sample === 0).map(([key, row]) => [key.id, row]));
  const [left, right] = [first(a), first(b)];
  const problems = [...new Set([...left.keys(), ...right.keys()])];
  return problems.map((id) => ({ id, level: Number(id[0]), number: Number(id.slice(2)), a: left.get(id), b: right.get(id), outcome: outcome(left.get(id), right.get(id)) }))
    .sort((x, y) => x.level - y.level || x.number - y.number);
}

const entryOf = (text) => entries.find((entry) => entry.id === text) ?? entries.find((entry) => entry.name.toLowerCase() === text.trim().toLowerCase());

async function loadBoard() {
  const board = fields.board.value;
  const found = (await fetchJson(`boards/${board}.table.json`)).entries;
  if (board !== fields.board.value) return; // another was chosen meanwhile
  entries = found;
  byId("entries").replaceChildren(...entries.map((entry) => el("option", { value: entry.id }, entry.name)));
}

async function show() {
  const mine = ++turn;
  state.write({ board: fields.board.value, ...Object.fromEntries(["a", "b", "level", "outcome"].map((id) => [id, fields[id].value])) });
  const [a, b] = [entryOf(fields.a.value), entryOf(fields.b.value)];
  byId("result").replaceChildren();
  if (!a || !b) {
    const missing = [["A", a, fields.a.value], ["B", b, fields.b.value]].filter(([, entry, text]) => !entry && text).map(([name, , text]) => `Entry ${name}: no “${text}” on this board.`);
    byId("found").textContent = missing.join(" ") || (entries.length < 2 ? "This board has fewer than two entries." : "Choose two entries.");
    return;
  }
  const [left, right] = await Promise.all([entryData(fields.board.value, a.id), entryData(fields.board.value, b.id)]);
  if (mine !== turn) return; // a later choice overtook this one
  const all = pairUp(left, right).filter((pair) => !fields.level.value || String(pair.level) === fields.level.value);
  const pairs = all.filter((pair) => !fields.outcome.value || pair.outcome === fields.outcome.value);
  byId("found").textContent = `${pairs.length} of ${all.length} problems`;
  byId("result").replaceChildren(el("div", { class: "versus" }, scatter(pairs, a, b), score(all, a, b)), table(pairs, a, b));
  sortable(byId("pairs"));
}

function score(pairs, a, b) {
  const number = (name) => pairs.filter((pair) => pair.outcome === name).length;
  const both = pairs.filter((pair) => format.fast(pair.a) && format.fast(pair.b));
  const ratio = both.length ? Math.exp(both.reduce((sum, pair) => sum + Math.log(pair.a.speedup / pair.b.speedup), 0) / both.length) : null;
  const item = (value, words) => el("li", {}, el("strong", {}, value), words);
  return el("ul", { class: "score" },
    item(String(number("a")), `wins of ${a.name} (A)`), item(String(number("b")), `wins of ${b.name} (B)`), item(String(number("tie")), "ties: intervals meet"),
    item(String(number("neither")), "neither correct"), item(format.speedup(ratio), `A over B where both are correct (geomean, n = ${both.length})`));
}

function scatter(pairs, a, b) {
  const size = 420;
  const at = (value) => 44 + (size - 56) * Math.log(Math.min(Math.max(value, SPAN[0]), SPAN[1]) / SPAN[0]) / Math.log(SPAN[1] / SPAN[0]);
  const ticks = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16];
  const both = pairs.filter((pair) => format.fast(pair.a) && format.fast(pair.b));
  const dots = both.map((pair) => svg("circle", { class: `dot ${pair.outcome}`, cx: at(pair.b.speedup).toFixed(1), cy: (size - at(pair.a.speedup)).toFixed(1), r: 4 },
    svg("title", {}, `${pair.level}/${pair.number}: A ${format.speedup(pair.a.speedup)}, B ${format.speedup(pair.b.speedup)}`)));
  const marks = ticks.flatMap((value) => [
    svg("line", { class: "grid", x1: at(value), x2: at(value), y1: size - at(SPAN[1]), y2: size - at(SPAN[0]) }),
    svg("line", { class: "grid", x1: at(SPAN[0]), x2: at(SPAN[1]), y1: size - at(value), y2: size - at(value) }),
    svg("text", { x: at(value), y: size - 26, "text-anchor": "middle" }, `${value}×`),
    svg("text", { x: 38, y: size - at(value) + 4, "text-anchor": "end" }, `${value}×`)]);
  return el("figure", { class: "scatter" },
    svg("svg", { class: "chart", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `Speedups of ${both.length} problems that both solve: ${a.name} upwards, ${b.name} across` },
      marks, svg("line", { class: "one", x1: at(SPAN[0]), y1: size - at(SPAN[0]), x2: at(SPAN[1]), y2: size - at(SPAN[1]) }), dots,
      svg("text", { x: at(SPAN[1]) - 6, y: size - at(SPAN[0]) - 8, "text-anchor": "end" }, "B →"), svg("text", { x: at(SPAN[0]) + 8, y: size - at(SPAN[1]) + 18 }, "A ↑")),
    el("figcaption", {}, `Speedup over PyTorch where both are correct: A, ${a.name}, upwards; B, ${b.name}, across. Above the line A is faster. Dots at an edge may lie beyond it.`));
}

function cells(row) {
  const link = row ? format.words[row.status] : "no kernel";
  if (!format.fast(row)) return [el("td", { class: "n soft" }, link)];
  return [el("td", { class: `n ${format.faster(row) ? "up" : ""}`, "data-value": row.speedup }, format.speedup(row.speedup), el("small", {}, format.interval(row.speedup_ci95)))];
}

function table(pairs, a, b) {
  const head = (text, type, css = "") => el("th", { scope: "col", "data-type": type, class: css }, text);
  const line = (pair) => {
    const both = format.fast(pair.a) && format.fast(pair.b);
    const [first, second] = [[pair.a, a], [pair.b, b]].filter(([row]) => row).map(([, entry]) => entry.id);
    const link = `${root}problems/${pair.id}.html?board=${fields.board.value}&a=${first}${second ? `&b=${second}` : ""}#code`;
    return el("tr", {}, el("th", { scope: "row", "data-value": pair.level * 1000 + pair.number }, el("a", { href: link }, `${pair.level}/${pair.number}`)),
      cells(pair.a), cells(pair.b), el("td", { class: "n", "data-value": both ? pair.a.speedup / pair.b.speedup : "" }, both ? format.speedup(pair.a.speedup / pair.b.speedup) : "–"),
      el("td", {}, WORDS[pair.outcome]));
  };
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Problem by problem" }, el("table", { id: "pairs" },
    el("thead", {}, el("tr", {}, head("Problem", "key"), head(`A: ${a.name}`, "number", "n"), head(`B: ${b.name}`, "number", "n"), head("A over B", "number", "n"), head("Outcome", "text"))),
    el("tbody", {}, pairs.map(line))));
}

async function start() {
  const boards = [...fields.board.options].map((option) => option.value);
  const wanted = state.read("board") || boards[0];
  fields.board.value = boards.includes(wanted) ? wanted : boards[0];
  for (const id of ["a", "b", "level", "outcome"]) fields[id].value = state.read(id);
  byId("choose").hidden = false;
  fields.board.addEventListener("change", async () => { await loadBoard(); await show(); });
  for (const id of ["a", "b", "level", "outcome"]) fields[id].addEventListener("change", show);
  byId("swap").addEventListener("click", () => { [fields.a.value, fields.b.value] = [fields.b.value, fields.a.value]; show(); });
  await loadBoard();
  if (boards.includes(wanted)) await show();
  else byId("found").textContent = `There is no board ${wanted}.`;
}

if (fields.board) start();
