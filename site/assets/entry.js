// Lists of kernels and of problems: sort, search, filter, and what speedups are against; the choice stays in the address.
import { factors, onAgainst } from "./against.js";
import { entryData } from "./data.js";
import { byId, debounce, el } from "./dom.js";
import * as format from "./format.js";
import { plainly } from "./search.js";
import * as state from "./state.js";
import { sortable } from "./table.js";

const table = byId("table");
const NAMES = { search: "q", level: "level", status: "status", family: "family" };
const filters = Object.keys(NAMES).map(byId).filter(Boolean);
const rows = table ? [...table.tBodies[0].rows] : [];
const texts = new Map(rows.map((row) => [row, plainly(`${row.dataset.problem ?? ""} ${row.textContent} ${row.dataset.family ?? ""}`)]));

function show() {
  const words = plainly(byId("search").value).split(" ").filter(Boolean);
  const chosen = filters.filter((field) => field.id !== "search" && field.value);
  let shown = 0;
  for (const row of rows) {
    const fits = chosen.every((field) => row.dataset[field.id] === field.value) && words.every((word) => texts.get(row).includes(word));
    row.hidden = !fits;
    shown += fits;
  }
  for (const cell of document.querySelectorAll(".atlas a[data-problem]")) {
    cell.classList.toggle("hit", shown < rows.length && !byId(`p${cell.dataset.problem}`)?.hidden);
  }
  byId("found").textContent = `${format.count(shown)} of ${format.count(rows.length)}`;
  state.write(Object.fromEntries(filters.map((field) => [NAMES[field.id], field.value])));
}

// The speedups of an entry's kernels, against what was chosen.
async function hold() {
  const [board, entry] = ["board", "a"].map((name) => new URLSearchParams(table.dataset.query).get(name));
  const [data, divide] = await Promise.all([entryData(board, entry), factors(board)]);
  const known = new Map(data.rows.map((row) => [row.key, row]));
  for (const row of rows) {
    const item = known.get(row.dataset.key ?? keyOf(row));
    const factor = divide?.[row.dataset.problem] ?? 1;
    if (!item?.speedup || row.cells.length < 4) continue;
    const [low, high] = item.speedup_ci95.map((bound) => bound / factor);
    row.cells[2].textContent = format.speedup(item.speedup / factor);
    row.cells[2].dataset.value = item.speedup / factor;
    row.cells[2].classList.toggle("up", item.status === "correct" && low > 1);
    row.cells[3].textContent = format.interval([low, high]);
  }
}

function keyOf(row) {
  const [level, problem] = row.dataset.problem.split("_");
  const sample = / #(\d+)$/.exec(row.cells[0].querySelector("a").textContent)?.[1] ?? 0;
  return `level_${level}_problem_${problem}_sample_${sample}`;
}

if (table) {
  for (const field of filters) {
    const wanted = state.read(NAMES[field.id]);
    if (wanted && field.options && ![...field.options].some((option) => option.value === wanted)) field.append(el("option", {}, wanted));
    field.value = wanted;
    field.addEventListener(field.id === "search" ? "input" : "change", field.id === "search" ? debounce(show) : show);
  }
  sortable(table);
  show();
  if (onAgainst(hold)) hold();
}
