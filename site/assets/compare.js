// Compares entries problem by problem: the first two by score and drawing, all of them in the table.
import { factors, offer, onAgainst, over } from "./against.js";
import { liven } from "./charts.js";
import { entryData, fetchJson } from "./data.js";
import { byId, el, root, svg } from "./dom.js";
import * as format from "./format.js";
import * as state from "./state.js";
import { sortable } from "./table.js";

const KEPT = ["a", "b", "level", "outcome"];
const fields = Object.fromEntries(["board", ...KEPT].map((id) => [id, byId(id)]));
const WORDS = { a: "A wins", b: "B wins", tie: "tie", onlyA: "B sent none", onlyB: "A sent none", failA: "only A correct", failB: "only B correct", neither: "neither correct", unranked: "does not rank" };
const SPAN = [1 / 8, 16];
const MOST = 6;
let entries = [];
let loading = null; // the entries of the board that is chosen
let more = [];
let turn = 0;

// A win needs two correct kernels whose intervals do not meet. What one side did not send, or got wrong, is apart.
function outcome(a, b) {
  const [left, right] = [format.fast(a), format.fast(b)];
  if (!left && !right) return "neither";
  if (!b) return "onlyA";
  if (!a) return "onlyB";
  if (!right) return "failA";
  if (!left) return "failB";
  if (a.speedup_ci95[0] > b.speedup_ci95[1]) return "a";
  return b.speedup_ci95[0] > a.speedup_ci95[1] ? "b" : "tie";
}

const firstSamples = (data) => new Map(data.rows.map((row) => [format.problemOf(row.key), row]).filter(([key]) => key.sample === 0).map(([key, row]) => [key.id, row]));

function pairUp(a, b, others = []) {
  const [left, right, ...rest] = [a, b, ...others].map(firstSamples);
  const problems = [...new Set([left, right, ...rest].flatMap((rows) => [...rows.keys()]))];
  return problems.map((id) => ({ id, level: Number(id[0]), number: Number(id.slice(2)), a: left.get(id), b: right.get(id), others: rest.map((rows) => rows.get(id)), outcome: outcome(left.get(id), right.get(id)) }))
    .sort((x, y) => x.level - y.level || x.number - y.number);
}

// What does not rank counts in no figure, and level 4 only where it alone is asked for.
const isCounted = (pair) => fields.level.value === "4" || [pair.a, pair.b, ...pair.others].find(Boolean).counted;

const entryOf = (text) => entries.find((entry) => entry.id === text) ?? entries.find((entry) => entry.name.toLowerCase() === text.trim().toLowerCase());

// Entries that another board lacks make way for its best; those of an address stay, and are said to be missing.
async function loadBoard({ isAnother = false } = {}) {
  const board = fields.board.value;
  const found = (await fetchJson(`boards/${board}.table.json`)).entries;
  if (board !== fields.board.value) return; // another was chosen meanwhile
  await offer(board);
  if (board !== fields.board.value) return;
  entries = found;
  byId("entries").replaceChildren(...entries.map((entry) => el("option", { value: entry.id }, entry.name)));
  for (const field of [fields.a, fields.b]) if (isAnother && !entryOf(field.value)) field.value = "";
  const ranked = entries.filter((entry) => entry.kind !== "baseline");
  const first = [...ranked, ...entries.filter((entry) => !ranked.includes(entry))];
  if (!fields.a.value) fields.a.value = first.find((entry) => entry.id !== fields.b.value)?.id ?? "";
  if (!fields.b.value) fields.b.value = first.find((entry) => entry.id !== fields.a.value)?.id ?? "";
}

async function show() {
  const mine = ++turn;
  await loading;
  if (mine !== turn) return; // a later choice overtook this one
  state.write({ board: fields.board.value, ...Object.fromEntries(KEPT.map((id) => [id, fields[id].value])), more: more.join(",") });
  const [a, b] = [entryOf(fields.a.value), entryOf(fields.b.value)];
  if (!a || !b) {
    byId("result").replaceChildren();
    const missing = [["A", a, fields.a.value], ["B", b, fields.b.value]].filter(([, entry, text]) => !entry && text).map(([name, , text]) => `Entry ${name}: no “${text}” on this board.`);
    byId("found").textContent = missing.join(" ") || (entries.length < 2 ? "This board has fewer than two entries." : "Choose two entries.");
    return;
  }
  if (a === b) {
    byId("result").replaceChildren();
    byId("found").textContent = `A and B are both ${a.name}. Choose two entries.`;
    return;
  }
  const others = more.map(entryOf).filter((entry) => entry && entry !== a && entry !== b);
  const all = [a, b, ...others];
  const board = fields.board.value;
  const [{ problems }, divide, ...loaded] = await Promise.all([fetchJson(`api/v1/boards/${board}.problems.json`), factors(board), ...all.map((entry) => entryData(board, entry.id))]);
  if (mine !== turn) return;
  const held = loaded.map((data) => ({ ...data, rows: data.rows.map((row) => over(row, divide?.[format.problemOf(row.key).id])) }));
  const pairs = pairUp(...held.slice(0, 2), held.slice(2)).filter((pair) => !fields.level.value || String(pair.level) === fields.level.value)
    .map((pair) => (isCounted(pair) ? pair : { ...pair, outcome: "unranked" }));
  const shown = pairs.filter((pair) => !fields.outcome.value || pair.outcome === fields.outcome.value);
  byId("found").textContent = `${shown.length} of ${pairs.length} problems`;
  byId("result").replaceChildren(also(others), el("div", { class: "versus" }, scatter(shown, a, b), score(pairs, a, b)), table(shown, all, problems));
  liven(byId("result").querySelector("svg.chart"));
  sortable(byId("pairs"));
}

function also(others) {
  return el("p", { class: "tags" }, others.flatMap((entry) => [el("span", { class: "tag" }, entry.name, " ",
    el("button", { type: "button", class: "bare", "aria-label": `Remove ${entry.name}`, onclick: () => { more = more.filter((id) => id !== entry.id); show(); } }, "×")), " "]));
}

function score(pairs, a, b) {
  const number = (name) => pairs.filter((pair) => pair.outcome === name).length;
  const both = pairs.filter((pair) => ["a", "b", "tie"].includes(pair.outcome));
  const ratio = both.length ? Math.exp(both.reduce((sum, pair) => sum + Math.log(pair.a.speedup / pair.b.speedup), 0) / both.length) : null;
  const item = (value, words) => el("li", {}, el("strong", {}, value), words);
  return el("div", {},
    el("h2", {}, `Head to head: ${both.length} ${fields.level.value === "4" ? "" : "ranked "}problems that both solve`),
    el("ul", { class: "score" },
      item(String(number("a")), `wins of ${a.name} (A)`), item(String(number("b")), `wins of ${b.name} (B)`), item(String(number("tie")), "ties: intervals meet"),
      item(format.speedup(ratio), "A over B (geomean)")),
    el("h2", {}, "Apart from that"),
    el("ul", { class: "score small" },
      item(`${number("failA")} and ${number("failB")}`, "only A correct, only B correct, though both sent a kernel"),
      item(`${number("onlyB")} and ${number("onlyA")}`, "did not send: A, B, where the other is correct"),
      item(String(number("neither")), "neither correct"),
      number("unranked") ? item(String(number("unranked")), "do not rank, and count in no figure here") : ""));
}

function scatter(pairs, a, b) {
  const size = 420;
  const at = (value) => 44 + (size - 56) * Math.log(Math.min(Math.max(value, SPAN[0]), SPAN[1]) / SPAN[0]) / Math.log(SPAN[1] / SPAN[0]);
  const ticks = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16];
  const both = pairs.filter((pair) => format.fast(pair.a) && format.fast(pair.b));
  const words = (pair) => `${pair.level}/${pair.number}: A ${format.speedup(pair.a.speedup)}, B ${format.speedup(pair.b.speedup)}`;
  const dots = both.map((pair) => svg("a", { href: codeLink(pair, [a, b]), "aria-label": words(pair) },
    svg("circle", { class: `dot ${pair.outcome}`, cx: at(pair.b.speedup).toFixed(1), cy: (size - at(pair.a.speedup)).toFixed(1), r: 4.5 }, svg("title", {}, words(pair)))));
  const marks = ticks.flatMap((value) => [
    svg("line", { class: "grid", x1: at(value), x2: at(value), y1: size - at(SPAN[1]), y2: size - at(SPAN[0]) }),
    svg("line", { class: "grid", x1: at(SPAN[0]), x2: at(SPAN[1]), y1: size - at(value), y2: size - at(value) }),
    svg("text", { x: at(value), y: size - 26, "text-anchor": "middle" }, `${value}×`),
    svg("text", { x: 38, y: size - at(value) + 4, "text-anchor": "end" }, `${value}×`)]);
  return el("figure", { class: "scatter" },
    svg("svg", { class: "chart", viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": `Speedups of ${both.length} problems that both solve: ${a.name} upwards, ${b.name} across` },
      marks, svg("line", { class: "one", x1: at(SPAN[0]), y1: size - at(SPAN[0]), x2: at(SPAN[1]), y2: size - at(SPAN[1]) }), dots,
      svg("text", { x: at(SPAN[1]) - 6, y: size - at(SPAN[0]) - 8, "text-anchor": "end" }, "B →"), svg("text", { x: at(SPAN[0]) + 8, y: size - at(SPAN[1]) + 18 }, "A ↑")),
    el("figcaption", {}, `Speedup where both are correct: A, ${a.name}, upwards; B, ${b.name}, across. Above the line A is faster. A ring: B wins; grey: a tie. Each dot leads to the diff; dots at an edge may lie beyond it.`));
}

function codeLink(pair, sides) {
  const [first, second] = [[pair.a, sides[0]], [pair.b, sides[1]]].filter(([row]) => row).map(([, entry]) => entry.id);
  return `${root}problems/${pair.id}.html?board=${fields.board.value}&a=${first ?? sides[0].id}${second ? `&b=${second}` : ""}#code`;
}

const letter = (at) => String.fromCharCode(65 + at);

function cell(row, at) {
  const label = letter(at);
  if (!format.fast(row)) return el("td", { class: "n soft", "data-label": label }, row ? format.words[row.status] : "not sent");
  return el("td", { class: `n ${format.faster(row) ? "up" : ""}`, "data-label": label, "data-value": row.speedup }, format.speedup(row.speedup), el("small", {}, format.interval(row.speedup_ci95)));
}

function table(pairs, all, titles) {
  const head = (text, type, css = "") => el("th", { scope: "col", "data-type": type, class: css }, text);
  const line = (pair) => {
    const both = format.fast(pair.a) && format.fast(pair.b);
    return el("tr", {}, el("th", { scope: "row", "data-value": pair.level * 1000 + pair.number }, el("a", { href: codeLink(pair, all) }, `${pair.level}/${pair.number}`), ` ${titles[pair.id]?.title ?? ""}`),
      [pair.a, pair.b, ...pair.others].map(cell), el("td", { class: both ? "n" : "n apart", "data-label": "A over B", "data-value": both ? pair.a.speedup / pair.b.speedup : "" }, both ? format.speedup(pair.a.speedup / pair.b.speedup) : "–"),
      el("td", { "data-label": "Outcome" }, WORDS[pair.outcome]));
  };
  return el("div", { class: "scroll long", tabindex: 0, role: "region", "aria-label": "Problem by problem" }, el("table", { id: "pairs", class: "cards" },
    el("thead", {}, el("tr", {}, head("Problem", "key"), all.map((entry, at) => head(`${letter(at)}: ${entry.name}`, "number", "n")), head("A over B", "number", "n"), head("Outcome", "text"))),
    el("tbody", {}, pairs.map(line))));
}

async function takeAnother() {
  const text = byId("also").value;
  byId("also").value = "";
  await loading;
  const entry = entryOf(text);
  if (entry && more.length < MOST - 2 && !more.includes(entry.id)) { more = [...more, entry.id]; await show(); }
  if (text && !entry) byId("found").textContent = `No “${text}” on this board.`;
}

async function start() {
  const boards = [...fields.board.options].map((option) => option.value);
  const wanted = state.read("board") || boards[0];
  state.settle(fields.board, "board");
  for (const id of KEPT) state.settle(fields[id], id);
  more = state.read("more").split(",").filter(Boolean).slice(0, MOST - 2);
  fields.board.addEventListener("change", () => { loading = loadBoard({ isAnother: true }); show(); });
  for (const id of KEPT) fields[id].addEventListener("change", show);
  byId("swap").addEventListener("click", () => { [fields.a.value, fields.b.value] = [fields.b.value, fields.a.value]; show(); });
  byId("also").addEventListener("change", takeAnother);
  onAgainst(show);
  if (!boards.includes(wanted)) {
    byId("found").textContent = `There is no board ${wanted}.`;
    return;
  }
  loading = loadBoard();
  await show();
  await takeAnother(); // what was typed before the script came
}

if (fields.board) start();
