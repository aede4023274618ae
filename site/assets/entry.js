// Lists of kernels and of problems: sort, search, filter; the choice stays in the address.
import { byId, debounce } from "./dom.js";
import { count } from "./format.js";
import * as state from "./state.js";
import { sortable } from "./table.js";

const table = byId("table");
const filters = ["search", "level", "status"].map(byId);

function show() {
  const [search, level, status] = filters.map((field) => field.value);
  const wanted = search.trim().toLowerCase();
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const fits = (!level || row.dataset.level === level) && (!status || row.dataset.status === status)
      && (!wanted || row.textContent.toLowerCase().includes(wanted));
    row.hidden = !fits;
    shown += fits;
  }
  byId("found").textContent = `${count(shown)} of ${count(table.tBodies[0].rows.length)}`;
  state.write({ q: search, level, status });
}

if (table) {
  byId("filters").hidden = false;
  const names = ["q", "level", "status"];
  filters.forEach((field, at) => {
    field.value = state.read(names[at]);
    field.addEventListener(at ? "change" : "input", at ? show : debounce(show));
  });
  sortable(table);
  show();
}
