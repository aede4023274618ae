// The matrix: level filter, and columns of further entries; the choice stays in the address.
import { entryData, fetchJson } from "./data.js";
import { byId, el, root } from "./dom.js";
import * as format from "./format.js";
import * as state from "./state.js";

const MOST = 12;
const controls = byId("controls");
const table = byId("matrix");
const entries = controls && fetchJson(controls.dataset.table.slice(root.length)).then((table) => table.entries);
let added = [];

const tone = (row) => (!format.faster(row) ? "even" : row.speedup >= 2 ? "up3" : row.speedup >= 1.2 ? "up2" : "up1");

function cell(row, problem, entry) {
  if (!row) return el("td", { class: "none", "data-added": entry }, el("span", { class: "hidden" }, "no kernel"));
  const href = `${root}problems/${problem}.html?board=${controls.dataset.board}&a=${entry}#code`;
  if (format.fast(row)) return el("td", { class: tone(row), "data-added": entry }, el("a", { href }, format.speedup(row.speedup)));
  return el("td", { class: "bad", "data-added": entry }, el("a", { href, title: format.words[row.status] },
    el("span", { "aria-hidden": "true" }, row.status === "correct" ? "✓" : "✗"), el("span", { class: "hidden" }, format.words[row.status])));
}

async function add(id) {
  const entry = (await entries).find((item) => item.id === id || item.name.toLowerCase() === id.trim().toLowerCase());
  const data = entry && await entryData(controls.dataset.board, entry.id);
  const present = entry && table.tHead.querySelector(`[data-id="${CSS.escape(entry.id)}"]`);
  if (!entry) return note(`No entry “${id}” on this board.`);
  if (present) return note(`${entry.name} is there already.`);
  if (added.length >= MOST) return note(`The table is full: ${MOST} entries were added.`);
  const rows = new Map();
  for (const row of data.rows) {
    const { id: problem, sample } = format.problemOf(row.key);
    if (sample === 0) rows.set(problem, row);
  }
  added.push(entry.id);
  table.tHead.rows[0].append(el("th", { scope: "col", "data-id": entry.id, "data-added": entry.id },
    el("a", { href: `${root}entries/${controls.dataset.board}/${entry.id}.html` }, entry.name), " ",
    el("button", { type: "button", "aria-label": `Remove ${entry.name}`, onclick: () => remove(entry.id) }, "×")));
  for (const line of table.tBodies[0].rows) line.append(cell(rows.get(line.dataset.problem), line.dataset.problem, entry.id));
  show();
}

function note(words) {
  byId("found").textContent = words;
}

function remove(id) {
  added = added.filter((other) => other !== id);
  for (const node of table.querySelectorAll(`[data-added="${CSS.escape(id)}"]`)) node.remove();
  show();
}

function show() {
  const level = byId("level").value;
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    row.hidden = Boolean(level) && row.dataset.level !== level;
    shown += !row.hidden;
  }
  byId("found").textContent = `${shown} problems × ${table.tHead.rows[0].cells.length - 1} columns`;
  state.write({ level, add: added.join(",") });
}

async function take() {
  const name = byId("add").value;
  byId("add").value = "";
  if (name) await add(name);
}

async function start() {
  const wanted = state.read("add").split(",").filter(Boolean); // before show writes what is there now
  state.settle(byId("level"), "level");
  byId("level").addEventListener("change", show);
  byId("add").addEventListener("change", take);
  byId("entries").replaceChildren(...(await entries).map((entry) => el("option", { value: entry.id }, entry.name)));
  show();
  for (const id of wanted) await add(id);
  await take(); // what was typed before the script came
}

if (controls) start();
