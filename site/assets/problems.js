// The list of problems: sort, search, filter; the atlas points out what is found.
import { byId } from "./dom.js";
import { filtered } from "./filters.js";
import { sortable } from "./table.js";

const table = byId("table");

function pointOut(shown, of) {
  for (const cell of document.querySelectorAll(".atlas a[data-problem]")) {
    cell.classList.toggle("hit", shown < of && !byId(`p${cell.dataset.problem}`)?.hidden);
  }
}

if (table) {
  sortable(table);
  filtered(table, pointOut);
}
