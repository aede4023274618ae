// Search and filters over the rows of a table; the choice stays in the address.
import { byId, debounce, el } from "./dom.js";
import * as format from "./format.js";
import { plainly } from "./search.js";
import * as state from "./state.js";

const NAMES = { search: "q", level: "level", status: "status", family: "family" };

// Takes what gives the rows there are, and what is told how many of them are shown.
export function filtered(table, told = () => {}) {
  const filters = Object.keys(NAMES).map(byId).filter(Boolean);
  const texts = new WeakMap();
  const textOf = (row) => {
    if (!texts.has(row)) texts.set(row, plainly(`${row.dataset.problem ?? ""} ${row.textContent} ${row.dataset.family ?? ""}`));
    return texts.get(row);
  };
  const show = () => {
    const rows = [...table.tBodies[0].rows];
    const words = plainly(byId("search").value).split(" ").filter(Boolean);
    const chosen = filters.filter((field) => field.id !== "search" && field.value);
    let shown = 0;
    for (const row of rows) {
      const fits = chosen.every((field) => row.dataset[field.id] === field.value) && words.every((word) => textOf(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    byId("found").textContent = `${format.count(shown)} of ${format.count(rows.length)}`;
    told(shown, rows.length);
    state.write(Object.fromEntries(filters.map((field) => [NAMES[field.id], field.value])));
  };
  for (const field of filters) {
    const wanted = state.read(NAMES[field.id]);
    if (wanted && field.options && ![...field.options].some((option) => option.value === wanted)) field.append(el("option", {}, wanted));
    state.settle(field, NAMES[field.id]);
    field.addEventListener(field.id === "search" ? "input" : "change", field.id === "search" ? debounce(show) : show);
  }
  show();
  return show;
}
