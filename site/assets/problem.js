// A problem's viewer: any kernel's code, its diff against the reference or another kernel, its facts, log and evidence.
import { chosen as against, factors, onAgainst, over } from "./against.js";
import { entryData, fetchJson, fetchPacked, fetchText, kernelSource } from "./data.js";
import { drawDiff } from "./diff.js";
import { byId, el, root, saveFile } from "./dom.js";
import * as format from "./format.js";
import { drawCode, launches } from "./listing.js";
import * as state from "./state.js";

const viewer = byId("code");
const [gpu, left, right, changed] = ["gpu", "a", "b", "changed"].map(byId);
const problem = viewer.dataset.problem;
const REFERENCE = "reference";
const choices = [left, right, changed];
const takers = ["copy", "save"].map(byId);
const enable = (controls, isOn) => controls.forEach((control) => { control.disabled = !isOn; });
let kernels = [];
let loading = null; // the kernels of the board that is chosen
let [loads, shows] = [0, 0];
let drawn = null; // the file that is shown: its name and source

const named = (entry) => kernels.find((kernel) => kernel.entry === entry);

// Where an entry sent no first sample a further one stands for it, and says so.
function titleOf(kernel) {
  const { sample } = format.problemOf(kernel.key);
  return sample ? `${kernel.display_name}, sample ${sample}` : kernel.display_name;
}

function option(kernel) {
  const figure = format.fast(kernel) ? `${format.speedup(kernel.speedup)} eager` : format.words[kernel.status];
  return el("option", { value: kernel.entry }, `${titleOf(kernel)} (${figure})`);
}

// What an address names and the board lacks is said; who chooses another GPU sees what is there.
async function loadBoard({ isAddressed = false } = {}) {
  const mine = ++loads;
  shows += 1; // what is being drawn is of the board before
  const board = gpu.value;
  kernels = [];
  enable([...choices, ...takers], false);
  const found = board ? [...(await fetchJson(`api/v1/problems/${board}/${problem}.json`)).kernels] : [];
  const [a, b] = [state.read("a"), state.read("b")];
  await takeMissing(found, board, a);
  await takeSample(found, board, a, state.read("sample"));
  if (mine !== loads) return; // another board was chosen meanwhile
  kernels = found;
  enable(choices, true);
  left.replaceChildren(...kernels.map(option));
  right.replaceChildren(el("option", { value: "" }, "nothing: the file alone"), el("option", { value: REFERENCE }, "the PyTorch reference"), ...kernels.map(option));
  if (named(a)) left.value = a;
  else if (!isAddressed || !a) left.value = firstToShow();
  if (b === REFERENCE || named(b)) right.value = b;
  if (!isAddressed || !a || named(a)) {
    await show();
    return;
  }
  left.selectedIndex = -1;
  complain(`“${a}” has no kernel for this problem on this board.`);
}

function load(how) {
  loading = loadBoard(how).catch((error) => complain(`The kernels cannot be shown: ${error.message}`));
  return loading;
}

// The fastest that is no baseline, else the first.
const firstToShow = () => (kernels.find((kernel) => kernel.kind !== "baseline" && format.fast(kernel)) ?? kernels[0])?.entry ?? "";

// The list holds the fastest kernels of a large board; another's row is with its entry.
async function takeMissing(found, board, entry) {
  if (!entry || found.some((kernel) => kernel.entry === entry)) return;
  const listed = (await fetchJson(`boards/${board}.table.json`)).entries.some((item) => item.id === entry);
  const data = listed ? await entryData(board, entry) : null;
  const row = data?.rows.find((item) => format.problemOf(item.key).id === problem);
  if (row) found.push({ ...row, entry, display_name: data.display_name });
}

// An address may name another sample than the one that stands for the entry.
async function takeSample(found, board, entry, sample) {
  const at = found.findIndex((kernel) => kernel.entry === entry);
  if (!sample || at < 0) return;
  const key = found[at].key.replace(/sample_\d+$/, `sample_${sample}`);
  const row = (await entryData(board, entry)).rows.find((item) => item.key === key);
  if (row) found[at] = { ...row, entry, sample, display_name: found[at].display_name };
}

async function source(name) {
  if (name === REFERENCE) return { name: "PyTorch reference", source: await fetchText(`problems/${problem}.py`) };
  const kernel = named(name);
  const found = await kernelSource(problem, kernel.kernel_sha256, Number(viewer.dataset.shards));
  return { name: titleOf(kernel), source: found ?? "# This kernel's code does not lie with the site: its submission has it.\n" };
}

async function show() {
  const mine = ++shows;
  enable(takers, false);
  if (!left.value) {
    byId("shown").replaceChildren(el("p", { class: "empty" }, "No kernel to show yet."));
    byId("facts").replaceChildren();
    return;
  }
  state.write({ board: gpu.value === viewer.dataset.first ? "" : gpu.value, a: left.value, b: right.value, sample: named(left.value).sample });
  changed.closest("label").hidden = !right.value;
  try {
    const [a, b] = await Promise.all([source(left.value), right.value ? source(right.value) : null]);
    const facts = await evidence(named(left.value), a.source);
    if (mine !== shows) return; // a later choice overtook this one
    drawn = { name: `${left.value}-${problem}.py`, source: a.source };
    enable(takers, true);
    byId("facts").replaceChildren(...facts);
    byId("shown").replaceChildren(b ? drawDiff(b, a, { all: !changed.checked }) : drawCode(a));
    chosenRow();
    atLine();
  } catch (error) {
    if (mine === shows) complain(`The code cannot be shown: ${error.message}`);
  }
}

function atLine() {
  const line = /^#L\d+$/.test(location.hash) && byId(location.hash.slice(1));
  if (line) line.scrollIntoView({ block: "center" });
}

function complain(message) {
  byId("facts").replaceChildren();
  byId("shown").replaceChildren(el("p", { class: "notice" }, message));
}

async function evidence(kernel, code) {
  const line = el("p", {}, el("span", { class: `status ${kernel.status}` }, format.words[kernel.status]));
  const facts = [];
  if (kernel.speedup) {
    facts.push(["Speedup over eager PyTorch", `${format.speedup(kernel.speedup)} (95 %: ${format.interval(kernel.speedup_ci95)})`], ["Time", `${format.ms(kernel.runtime_ms)} against ${format.ms(kernel.reference_ms)}`]);
    if (kernel.light_share) facts.push(["Light speed", `${format.percent(kernel.light_share)}${kernel.light_share_ci95 ? ` (${kernel.light_share_ci95.map(format.percent).join(" to ")})` : ""}`]);
  }
  if (kernel.language) facts.push(["Written in", kernel.language]);
  if (kernel.labels?.length) facts.push(["Labels", kernel.labels.join(", ")]);
  const found = launches(code);
  if (found.length) facts.push([found.length > 1 ? "Launches" : "Launch", found.flatMap((launch, at) => [at ? ", " : "", el("code", {}, launch)])]);
  facts.push(["SHA-256", el("code", {}, kernel.kernel_sha256.slice(0, 16))]);
  if (kernel.raw) facts.push(["As it is", el("a", { href: `${root}${kernel.raw}` }, "raw file")]);
  const row = (await entryData(gpu.value, kernel.entry)).rows.find((item) => item.key === kernel.key) ?? {};
  const parts = [line, pairs(facts), ...standsOn(row.stands_on), ...await revisions(kernel)];
  if (kernel.status === "correct") return parts;
  if (row.failure) parts.push(el("p", {}, el("strong", {}, row.failure.split(":", 1)[0]), `: ${row.message ?? ""}`));
  if (row.log) parts.push(el("h3", {}, "End of the log"), el("pre", { class: "log", tabindex: 0, "aria-label": "Log" }, row.log));
  if (row.evidence) parts.push(el("h3", {}, "Counter-example"), el("pre", { class: "log", tabindex: 0, "aria-label": "Counter-example" }, JSON.stringify(row.evidence, null, 2)));
  return parts;
}

const pairs = (facts) => el("dl", { class: "pairs" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));

// What must hold for a row to be believed, as leaderboard/stages/invariants.py works it out.
function standsOn(found) {
  if (!found) return [];
  const ms = (value) => `${value.toFixed(2)} ms`;
  const facts = [
    ["ran_ms", "Ran while stopped", (value) => `${ms(value)} of processor${found.paused_ms === undefined ? "" : ` in ${ms(found.paused_ms)} of pauses`}`],
    ["overhead_over_alone", "Overhead beside over alone", (value) => value.toFixed(3)],
    ["reference_over_alone", "Reference beside over alone", (value) => value.toFixed(3)],
    ["panel_passed", "Panel of inputs", (value) => `${value} of ${found.panel_asked}`],
    ["looks_are_relative", "Tolerance of timed outputs", (value) => (value ? "relative to their size" : "absolute")],
    ["sharp_share", "Timed on inputs that tell shortcuts", format.percent],
    ["rounds_counted", "Rounds counted", (value) => `${value} of ${found.rounds_made}, ${found.rounds_looked_at} looked at`],
    ["evaluations", "Found by", (value) => (value === 1 ? "one evaluation" : `${value} evaluations`)],
    ["walls", "Walls tried and found standing", String],
  ].filter(([name]) => found[name] !== undefined).map(([name, words, written]) => [words, written(found[name])]);
  return [el("details", { class: "stands" }, el("summary", {}, "What the row stands on"), pairs(facts))];
}

async function revisions(kernel) {
  const entry = await entryData(gpu.value, kernel.entry).catch(() => null);
  if (!entry || entry.revision < 2) return [];
  const known = (await fetchPacked(`api/v1/revisions/${gpu.value}/${encodeURIComponent(kernel.entry)}.json.gz`).catch(() => null))?.kernels[kernel.key];
  if (!known?.length) return [];
  return [el("details", {}, el("summary", {}, `Earlier verdicts (${known.length})`), el("ol", { class: "history" },
    known.toReversed().map(([revision, at, status, speedup, digest]) => el("li", { value: revision }, `${at.slice(0, 10)}: ${format.words[status]}${speedup ? `, ${format.speedup(speedup)}` : ""} `, el("code", {}, digest)))))];
}

function chosenRow() {
  for (const row of document.querySelectorAll("table.kernels tbody tr")) {
    const mine = row.closest("table").dataset.kernels === gpu.value;
    row.classList.toggle("chosen", mine && row.dataset.entry === left.value);
  }
}

async function showCode(board, entry) {
  if (gpu.value !== board) {
    gpu.value = board;
    load();
  }
  await loading;
  if (gpu.value !== board || !named(entry)) return; // another was chosen meanwhile, or nothing came
  left.value = entry;
  await show();
  viewer.scrollIntoView();
}

const codeButton = (board, entry, name) => el("button", { type: "button", "aria-label": `Show the code of ${name}`, onclick: () => showCode(board, entry) }, "Show");

function kernelRow(board, kernel, at) {
  const { sample } = format.problemOf(kernel.key);
  const isBaseline = kernel.kind === "baseline";
  return el("tr", { "data-entry": kernel.entry, class: isBaseline && "cut" }, el("td", { class: "n soft" }, String(at + 1)),
    el("th", { scope: "row", class: "name" }, el("a", { href: `${root}entries/${board}/${kernel.entry}.html` }, kernel.display_name), isBaseline ? [" ", el("span", { class: "tag" }, "baseline")] : "", sample ? el("small", {}, `sample ${sample}`) : ""),
    el("td", {}, el("span", { class: `status ${kernel.status}` }, format.words[kernel.status])),
    el("td", { class: `n ${format.faster(kernel) ? "up" : ""}` }, format.speedup(kernel.speedup), el("small", {}, format.interval(kernel.speedup_ci95))),
    el("td", { class: "n" }, format.ms(kernel.runtime_ms)), el("td", { class: "n" }, format.ms(kernel.reference_ms)), el("td", { class: "n" }, format.percent(kernel.light_share)),
    el("td", {}, kernel.language ?? ""), el("td", {}, (kernel.labels ?? []).flatMap((label) => [el("span", { class: "tag" }, label), " "])),
    el("td", { class: "script-cell" }, codeButton(board, kernel.entry, titleOf(kernel))));
}

// Every table's speedups against what was chosen; a board without that reference shows none.
async function hold() {
  const name = against();
  for (const table of document.querySelectorAll("table.kernels")) {
    const board = table.dataset.kernels;
    const held = await factors(board, name);
    const data = (await fetchJson(`api/v1/problems/${board}/${problem}.json`)).kernels;
    if (name !== against()) return; // a later choice overtook this one
    for (const row of table.tBodies[0].rows) {
      const found = data.find((kernel) => kernel.entry === row.dataset.entry);
      if (!found) continue;
      const item = name === "eager" || held ? over(found, held?.[problem]) : { ...found, speedup: null, speedup_ci95: null };
      row.cells[3].replaceChildren(format.speedup(item.speedup), el("small", {}, format.interval(item.speedup_ci95)));
      row.cells[3].classList.toggle("up", format.faster(item));
    }
  }
}

function tables() {
  for (const table of document.querySelectorAll("table.kernels")) {
    for (const row of table.tBodies[0].rows) row.cells[row.cells.length - 1].append(codeButton(table.dataset.kernels, row.dataset.entry, row.cells[1].querySelector("a").textContent));
  }
  for (const link of document.querySelectorAll("[data-all]")) {
    const board = link.dataset.all;
    const button = el("button", { type: "button", onclick: async () => {
      const all = (await fetchJson(`api/v1/problems/${board}/${problem}.json`)).kernels;
      document.querySelector(`table.kernels[data-kernels="${CSS.escape(board)}"]`).tBodies[0].replaceChildren(...all.map((kernel, at) => kernelRow(board, kernel, at)));
      button.remove();
      chosenRow();
      if (against() !== "eager") hold();
    } }, `Show ${link.textContent.replace(" as JSON", "")}`);
    link.after(" ", button);
  }
}

function takeAway() {
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(drawn.source).then(() => { byId("said").textContent = "Copied."; }, () => { byId("said").textContent = "This browser does not let a page copy."; });
  });
  byId("save").addEventListener("click", () => saveFile(drawn.source, "text/x-python", drawn.name));
}

if (gpu.value || gpu.options?.length) {
  if (gpu.options) state.settle(gpu, "board");
  tables();
  takeAway();
  onAgainst(hold);
  if (against() !== "eager") hold();
  gpu.addEventListener("change", () => load());
  for (const field of [left, right, changed]) field.addEventListener("change", show);
  load({ isAddressed: true });
}
