// The board: what speeds are against, level, search, filters and sorting over the whole table; curves; all in the address.
import { announce, compare, parseSort, sortButton } from "./table.js";
import { drawCurves, fromSlider, toSlider } from "./curve.js";
import { entryData, fetchJson } from "./data.js";
import { byId, debounce, el, root, svg } from "./dom.js";
import * as format from "./format.js";
import { plainly } from "./search.js";
import * as state from "./state.js";

const PAGE = 100;
const MOST = 6;
const section = document.querySelector("section.board");

let entries = [];
let place = {};
let turn = 0;
let shown = PAGE;
let sort = parseSort(state.read("sort"), { column: "rank", direction: "up" });
let level = "all";
let against = "eager";
let againstPlace = {};
let picked = state.read("pick").split(",").filter(Boolean).slice(0, MOST);

const HITS = 5;
const UNKNOWN = "not stated";
const ORIGIN = ["model", "scaffold"];
const FIELDS = { search: "q", kind: "kind", language: "language", model: "model", scaffold: "scaffold" }; // by their names in the address

function figure(entry, name) {
  if (against === "eager" || !(name in againstPlace)) return entry[level] ? entry[level][place[name]] : null;
  return entry.vs[against]?.[level]?.[againstPlace[name]] ?? null;
}
const intervalOf = (entry) => (against === "eager" ? entry.ci : entry.vs[against]?.ci);

function value(entry, column) {
  if (column === "rank") return against === "eager" ? entry.at : -(figure(entry, "deployed") ?? 0);
  if (column === "best") return entry.vs.best?.[level]?.[0] ?? null;
  if (column === "name") return entry.name.toLowerCase();
  if (column === "date") return entry.date;
  if (/^l\d$/.test(column)) return (against === "eager" ? entry[column]?.[0] : entry.vs[against]?.[column]?.[0]) ?? null;
  if (column === "correct") return figure(entry, "problems") ? figure(entry, "correct") / figure(entry, "problems") : null;
  if (column === "general") return figure(entry, "tried") ? figure(entry, "general") / figure(entry, "tried") : null;
  return figure(entry, column);
}

// What an entry says of its model or scaffold; a baseline was written by neither.
const stated = (entry, name) => entry[name] || (entry.kind === "entry" ? UNKNOWN : "");

function matching() {
  const [search, kind, language, ...origin] = Object.keys(FIELDS).map((id) => byId(id).value);
  const wanted = search.trim().toLowerCase();
  return entries.filter((entry) => (!kind || entry.kind === kind) && (!language || entry.languages.includes(language))
    && ORIGIN.every((name, at) => !origin[at] || stated(entry, name) === origin[at]) && (!wanted || entry.text.includes(wanted)));
}

function whisker(entry) {
  const low = Math.log(Number(section.dataset.low));
  const high = Math.log(Number(section.dataset.high));
  const width = Number(section.dataset.width);
  const x = (number) => (Math.min(Math.max((Math.log(number) - low) / (high - low), 0), 1) * width).toFixed(1);
  const ci = intervalOf(entry) ?? [1, 1];
  return svg("svg", { class: "whisker", viewBox: `0 0 ${width} 12`, width, height: 12, "aria-hidden": "true" },
    svg("line", { class: "one", x1: x(1), x2: x(1), y1: 0, y2: 12 }),
    svg("line", { x1: x(ci[0]), x2: x(ci[1]), y1: 6, y2: 6 }),
    svg("circle", { cx: x(figure(entry, "deployed") ?? 1), cy: 6, r: 3 }));
}

function share(entry, name, near) {
  const number = against === "eager" ? figure(entry, near) : 0;
  return el("td", { class: "n" }, format.percent(figure(entry, name)), number ? el("small", {}, `${number} near`) : "");
}

function pickBox(entry) {
  const box = el("input", { type: "checkbox", "aria-label": `Draw and compare ${entry.name}`, onchange: () => pick(entry.id, box.checked) });
  box.checked = picked.includes(entry.id);
  return box;
}

function row(entry, levels) {
  const overall = level === "all";
  const best = entry.vs.best;
  return el("tr", { "data-id": entry.id, class: entry.kind === "baseline" ? "cut" : null },
    el("td", { class: "n rank" }, entry.rank),
    el("th", { scope: "row", class: "name" },
      el("a", { href: `${root}entries/${section.dataset.slug}/${entry.id}.html` }, entry.name),
      entry.kind === "baseline" ? " " : "", entry.kind === "baseline" ? el("span", { class: "tag" }, "baseline") : "",
      el("small", {}, [entry.org, entry.origin].filter(Boolean).join(" · "), entry.cost === null ? "" : ` · $${Number(entry.cost.toPrecision(4))}`, entry.why && entry.why !== "baseline" ? el("em", {}, ` not ranked: ${entry.why}`) : "")),
    el("td", { class: "n main" }, format.speedup(figure(entry, "deployed")), overall ? el("small", {}, format.interval(intervalOf(entry))) : ""),
    el("td", { class: "plot" }, overall ? whisker(entry) : ""),
    el("td", { class: "n" }, format.speedup(value(entry, "best")), overall && best ? el("small", {}, format.interval(best.ci)) : ""),
    el("td", { class: "n" }, format.speedup(figure(entry, "geomean")), el("small", {}, `n = ${figure(entry, "n") ?? 0}`)),
    share(entry, "fast1", "near1"), share(entry, "fast1.5", "near1.5"), share(entry, "fast2", "near2"),
    el("td", { class: "n" }, format.percent(value(entry, "correct")),
      el("small", {}, entry[level] ? `${figure(entry, "correct")} of ${figure(entry, "problems")}` : "")),
    el("td", { class: "n" }, format.percent(value(entry, "light"))),
    el("td", { class: "n" }, format.percent(value(entry, "general"))),
    levels.map((name) => el("td", { class: "n" }, format.speedup(value(entry, name)))),
    el("td", { class: "n date" }, el("time", { datetime: entry.date }, entry.date)),
    el("td", { class: "pick" }, pickBox(entry)));
}

function draw() {
  const found = matching();
  const order = (entry) => value(entry, sort.column);
  found.sort((a, b) => compare(order(a) ?? null, order(b) ?? null, sort.direction) || a.at - b.at);
  const table = byId("standings");
  const levels = [...table.tHead.querySelectorAll("[data-sort]")].map((cell) => cell.dataset.sort).filter((name) => /^l\d$/.test(name));
  table.tBodies[0].replaceChildren(...found.slice(0, shown).map((entry) => row(entry, levels)));
  const heads = [...table.tHead.rows[0].cells];
  announce(heads, heads.find((cell) => cell.dataset.sort === sort.column), sort.direction);
  byId("found").textContent = `${format.count(found.length)} of ${format.count(entries.length)} rows`;
  offerMore(found.length - shown);
  if (!found.length) byId("more").textContent = "No entry fits. Change the search or reset.";
}

function offerMore(rest) {
  byId("more").replaceChildren(...(rest > 0 ? [el("button", { type: "button", onclick: () => { shown += PAGE; draw(); } },
    `Show ${Math.min(PAGE, rest)} more of ${format.count(rest)}`)] : []));
}

function remember() {
  const plain = sort.column === "rank" && sort.direction === "up";
  state.write({
    ...Object.fromEntries(Object.entries(FIELDS).map(([id, name]) => [name, byId(id).value])),
    against: against === "eager" ? "" : against, level: level === "all" ? "" : level, sort: plain ? "" : `${sort.column}.${sort.direction}`, pick: picked.join(","),
  });
}

function update() { remember(); draw(); findProblems(); }

// Problems that fit what is searched for, each with a link to its fastest kernel.
async function findProblems() {
  const words = plainly(byId("search").value).split(" ").filter(Boolean);
  if (!words.length) { byId("problems").replaceChildren(); return; }
  const { problems } = await fetchJson(`api/v1/boards/${section.dataset.slug}.problems.json`);
  if (words.join(" ") !== plainly(byId("search").value)) return; // more was typed meanwhile
  const named = Object.entries(problems).map(([id, item]) => [id, `${id.replace("_", "/")} ${item.title}`]);
  const found = named.filter(([, text]) => words.every((word) => (/^\d\/\d+$/.test(word) ? text.startsWith(`${word} `) : plainly(text).includes(word)))).slice(0, HITS);
  byId("problems").replaceChildren(...(found.length ? ["Problems: ", ...found.flatMap(([id, text]) => [el("a", { href: `${root}problems/${id}.html?board=${section.dataset.slug}#code` }, text), " "])] : []));
  if (found.length && !matching().length) byId("more").textContent = "No entry is named so, but problems are: they stand above the table.";
}

function pick(id, on) {
  picked = on ? [...picked, id].slice(-MOST) : picked.filter((other) => other !== id);
  for (const box of document.querySelectorAll("#standings tbody tr")) {
    box.querySelector(".pick input").checked = picked.includes(box.dataset.id);
  }
  remember();
  showPicked();
  curves();
}

function showPicked() {
  const chosen = byId("picked");
  const link = `${root}compare.html?board=${section.dataset.slug}&a=${picked[0]}&b=${picked[1]}`;
  chosen.replaceChildren(...(picked.length ? [`${picked.length} chosen. `,
    picked.length > 1 ? el("a", { href: link }, "Compare the first two") : "Choose another to compare.", " ",
    el("button", { type: "button", onclick: () => { picked = []; update(); showPicked(); curves(); } }, "Clear")] : []));
}

// As leaderboard/render/pages/boards.py does.
function drawnAtFirst() {
  const ranked = entries.filter((entry) => entry.rank !== "–");
  return (ranked.length ? ranked : entries).slice(0, 5);
}

async function curves() {
  const mine = ++turn;
  const slider = byId("p");
  const p = fromSlider(Number(slider.value));
  byId("p-value").textContent = p.toFixed(2);
  const names = picked.length ? picked : drawnAtFirst().map((entry) => entry.id);
  const chosen = [...new Set(names)].map((id) => entries.find((entry) => entry.id === id)).filter(Boolean);
  const loaded = await Promise.all(chosen.map((entry) => entryData(section.dataset.slug, entry.id)));
  if (mine !== turn) return; // a later choice overtook this one
  const series = chosen.map((entry, at) => ({
    name: entry.name,
    page: `${root}entries/${section.dataset.slug}/${entry.id}.html`,
    problems: entry[level] ? entry[level][place.problems] : entry.all[place.problems],
    speedups: loaded[at].rows.filter((item) => counted(item)).map((item) => item.speedup),
  }));
  drawCurves(byId("curve"), series, fromSlider(Number(slider.value)));
  state.write({ p: toSlider(p) === toSlider(1) ? "" : p.toFixed(2) });
}

function counted(item) {
  const { level: at, sample } = format.problemOf(item.key);
  const asked = at === 4 ? level === "l4" : item.counted && (level === "all" || `l${at}` === level);
  return asked && item.status === "correct" && item.speedup && sample === 0;
}

function switches() {
  for (const [id, name, turn] of [["levels", "level", (chosen) => { level = chosen; }], ["against", "against", (chosen) => { against = chosen; }]]) {
    const inputs = [...document.querySelectorAll(`#${id} input`)];
    if (inputs.length) turn(state.settleRadios(inputs, name));
    for (const input of inputs) input.addEventListener("change", () => { turn(input.value); update(); curves(); });
  }
}

function heads() {
  const cells = [...byId("standings").tHead.rows[0].cells];
  for (const cell of cells.filter((item) => item.dataset.sort)) {
    sortButton(cell, () => {
      const column = cell.dataset.sort;
      const first = ["rank", "name"].includes(column) ? "up" : "down";
      sort = { column, direction: sort.column === column ? (sort.direction === "up" ? "down" : "up") : first };
      update();
    });
  }
}

function fields() {
  for (const [id, name] of Object.entries(FIELDS)) {
    const field = byId(id);
    if (id === "language" || ORIGIN.includes(id)) {
      const values = new Set(entries.flatMap((entry) => (id === "language" ? entry.languages : stated(entry, id))).filter(Boolean));
      field.append(...[...values].sort().map((text) => el("option", {}, text)));
    }
    state.settle(field, name);
    field.addEventListener(id === "search" ? "input" : "change", id === "search" ? debounce(() => { shown = PAGE; update(); }) : update);
  }
  byId("reset").disabled = false;
  byId("reset").addEventListener("click", () => {
    for (const id of Object.keys(FIELDS)) byId(id).value = "";
    sort = { column: "rank", direction: "up" };
    level = "all";
    against = "eager";
    for (const id of ["levels", "against"]) document.querySelectorAll(`#${id} input`)[0]?.click();
    update();
    curves();
  });
}

function slider() {
  const p = Number(state.read("p", "1")) || 1;
  const input = el("input", { type: "range", id: "p", min: 0, max: 1000, step: 1, value: toSlider(Math.min(Math.max(p, 0.25), 16)), oninput: curves });
  document.querySelector("#curve .slider").replaceChildren(el("label", { for: "p" }, "Least speedup p: "), el("output", { id: "p-value", for: "p" }, fromSlider(Number(input.value)).toFixed(2)), input);
  const watch = new IntersectionObserver((seen) => {
    if (!seen.some((item) => item.isIntersecting)) return;
    watch.disconnect();
    curves();
  });
  watch.observe(byId("curves"));
}

// The rows that the page came with are right as they are; only the boxes are missing.
function decorate() {
  const known = new Map(entries.map((entry) => [entry.id, entry]));
  const rows = byId("standings").tBodies[0].rows;
  for (const line of rows) line.querySelector(".pick").append(pickBox(known.get(line.dataset.id)));
  shown = Math.max(shown, rows.length);
  offerMore(entries.length - shown);
  announce([...byId("standings").tHead.rows[0].cells], byId("standings").querySelector("[data-sort=rank]"), "up");
  byId("found").textContent = `${format.count(entries.length)} of ${format.count(entries.length)} rows`;
}

async function start() {
  const table = await fetchJson(section.dataset.table.slice(root.length));
  place = Object.fromEntries(table.columns.map((name, at) => [name, at]));
  againstPlace = Object.fromEntries(table.against.map((name, at) => [name, at]));
  entries = table.entries.map((entry, at) => ({ ...entry, at, text: `${entry.name} ${entry.org} ${entry.id} ${entry.origin}`.toLowerCase() }));
  picked = picked.filter((id) => entries.some((entry) => entry.id === id));
  switches();
  fields();
  heads();
  slider();
  remember();
  if (location.search) draw();
  else decorate();
  showPicked();
  findProblems();
  if (picked.length) curves();
}

if (section) start();
