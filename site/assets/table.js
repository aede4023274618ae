// Sorting by mouse and keyboard, announced by aria-sort; one helper for headers, one for whole static tables.
import { el } from "./dom.js";
import * as state from "./state.js";

export function sortButton(cell, press) {
  const button = el("button", { type: "button", onclick: press });
  button.append(...[...cell.childNodes].filter((node) => !(node.classList && node.classList.contains("what"))));
  const last = button.lastChild; // a space before the mark of the meaning would part the arrow from the words
  if (last instanceof Text) last.data = last.data.trimEnd();
  cell.prepend(button);
  if (cell.querySelector(".what")) button.after(" ");
}

export function announce(cells, chosen, direction) {
  for (const cell of cells) {
    if (cell === chosen) cell.setAttribute("aria-sort", direction === "up" ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  }
}

export function parseSort(text, fallback) {
  const match = /^([\w.]+)\.(up|down)$/.exec(text);
  return match ? { column: match[1], direction: match[2] } : fallback;
}

function valueOf(row, at, type) {
  const cell = row.cells[at];
  const value = cell.dataset.value ?? cell.textContent.trim();
  if (type === "text") return value.toLowerCase();
  return value === "" || Number.isNaN(Number(value)) ? null : Number(value);
}

export function compare(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null); // what is missing stays last
  const order = a < b ? -1 : a > b ? 1 : 0;
  return direction === "up" ? order : -order;
}

export function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  let sort = parseSort(state.read("sort"), null);
  const apply = () => {
    const at = Number(sort.column);
    const head = heads[at];
    if (!head || !head.dataset.type) return;
    const sorted = [...table.tBodies[0].rows].map((row) => [valueOf(row, at, head.dataset.type), row]);
    sorted.sort((a, b) => compare(a[0], b[0], sort.direction));
    table.tBodies[0].append(...sorted.map(([, row]) => row));
    announce(heads, head, sort.direction);
  };
  heads.forEach((head, at) => {
    if (!head.dataset.type) return;
    sortButton(head, () => {
      const first = head.dataset.type === "number" ? "down" : "up";
      const turned = { up: "down", down: "up" };
      const same = sort && Number(sort.column) === at;
      sort = { column: String(at), direction: same ? turned[sort.direction] : first };
      state.write({ sort: `${sort.column}.${sort.direction}` });
      apply();
    });
  });
  if (sort) apply();
  return () => { if (sort) apply(); };
}
