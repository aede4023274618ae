// A problem's viewer: any kernel's code, its diff against the reference or another kernel, its log and its evidence.
import { entryData, fetchJson, fetchText, kernelSource, rawResult } from "./data.js";
import { drawDiff } from "./diff.js";
import { byId, el, root } from "./dom.js";
import * as format from "./format.js";
import { highlight } from "./highlight.js";
import * as state from "./state.js";

const viewer = byId("code");
const [gpu, left, right, changed] = ["gpu", "a", "b", "changed"].map(byId);
const problem = viewer.dataset.problem;
const REFERENCE = "reference";
const NOTHING = "nothing";
let kernels = [];
let turn = 0;

const named = (entry) => kernels.find((kernel) => kernel.entry === entry);

function option(kernel) {
  const figure = format.fast(kernel) ? format.speedup(kernel.speedup) : format.words[kernel.status];
  return el("option", { value: kernel.entry }, `${kernel.display_name} (${figure})`);
}

// What an address names and the board lacks is said; who chooses another GPU sees what is there.
async function loadBoard({ isAddressed = false } = {}) {
  kernels = gpu.value ? (await fetchJson(`api/v1/problems/${gpu.value}/${problem}.json`)).kernels : [];
  const [a, b] = [state.read("a"), state.read("b")];
  left.replaceChildren(...kernels.map(option));
  right.replaceChildren(el("option", { value: REFERENCE }, "the PyTorch reference"), el("option", { value: NOTHING }, "nothing: code only"), ...kernels.map(option));
  if (named(a)) left.value = a;
  await takeSample(a, state.read("sample"));
  if ([REFERENCE, NOTHING].includes(b) || named(b)) right.value = b;
  if (!isAddressed || !a || named(a)) return show();
  left.selectedIndex = -1;
  byId("facts").replaceChildren();
  return complain(`“${a}” has no kernel for this problem on this board.`);
}

// An address may name another sample than the one that stands for the entry.
async function takeSample(entry, sample) {
  const at = kernels.findIndex((kernel) => kernel.entry === entry);
  if (!sample || at < 0) return;
  const key = kernels[at].key.replace(/sample_\d+$/, `sample_${sample}`);
  const row = (await entryData(gpu.value, entry)).rows.find((item) => item.key === key);
  const { display_name: name } = kernels[at];
  if (row) kernels[at] = { ...row, entry, sample, display_name: `${name}, sample ${sample}` };
}

async function source(name) {
  if (name === REFERENCE) return { name: "PyTorch reference", source: await fetchText(`problems/${problem}.py`) };
  const kernel = named(name);
  const found = await kernelSource(name, kernel.key, Number(viewer.dataset.chunk));
  return { name: kernel.display_name, source: found ?? "# The submission no longer holds this kernel.\n" };
}

async function show() {
  const mine = ++turn;
  if (!left.value) {
    byId("shown").replaceChildren(el("p", { class: "empty" }, "No kernel to show yet."));
    byId("facts").replaceChildren();
    return;
  }
  state.write({ board: gpu.value === viewer.dataset.first ? "" : gpu.value, a: left.value, b: right.value === REFERENCE ? "" : right.value, sample: named(left.value).sample });
  byId("shown").replaceChildren(el("p", { class: "soft" }, "Fetching the code …"));
  try {
    const [a, b] = await Promise.all([source(left.value), right.value === NOTHING ? null : source(right.value)]);
    const facts = await evidence(named(left.value));
    if (mine !== turn) return; // a later choice overtook this one
    byId("facts").replaceChildren(...facts);
    byId("shown").replaceChildren(b ? drawDiff(b, a, { all: !changed.checked }) : code(a));
    chosenRow();
  } catch (error) {
    complain(`The code cannot be shown: ${error.message}`);
  }
}

function complain(message) {
  byId("shown").replaceChildren(el("p", { class: "notice" }, message));
}

function code(side) {
  const block = el("pre", { class: "code", tabindex: 0, "aria-label": `Kernel of ${side.name}` });
  block.append(highlight(side.source));
  return block;
}

async function evidence(kernel) {
  const line = el("p", {}, el("span", { class: `status ${kernel.status}` }, format.words[kernel.status]));
  if (kernel.speedup) {
    line.append(` · ${format.speedup(kernel.speedup)} (95 %: ${format.interval(kernel.speedup_ci95)}) · ${format.ms(kernel.runtime_ms)} against ${format.ms(kernel.reference_ms)}`);
  }
  line.append(" · SHA-256 ", el("code", {}, kernel.kernel_sha256.slice(0, 16)));
  if (kernel.status === "correct") return [line];
  const result = await rawResult(gpu.value, kernel.entry);
  const row = result.rows.find((item) => item.key === kernel.key) ?? {};
  const parts = [line];
  if (row.failure) {
    parts.push(el("p", {}, el("strong", {}, row.failure.name), `: ${row.failure.message}`));
    if (row.failure.log) parts.push(el("h3", {}, "End of the log"), el("pre", { class: "log", tabindex: 0, "aria-label": "Log" }, row.failure.log));
  }
  if (row.evidence) parts.push(el("h3", {}, "Evidence"), el("pre", { class: "log", tabindex: 0, "aria-label": "Evidence" }, JSON.stringify(row.evidence, null, 2)));
  return parts;
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
    await loadBoard();
  }
  left.value = entry;
  await show();
  viewer.scrollIntoView();
}

function codeButton(board, entry, name) {
  return el("td", {}, el("button", { type: "button", "aria-label": `Show the code of ${name}`, onclick: () => showCode(board, entry) }, "Show"));
}

function kernelRow(board, kernel, at) {
  return el("tr", { "data-entry": kernel.entry }, el("td", { class: "n soft" }, String(at + 1)),
    el("th", { scope: "row", class: "name" }, el("a", { href: `${root}entries/${board}/${kernel.entry}.html` }, kernel.display_name)),
    el("td", {}, el("span", { class: `status ${kernel.status}` }, format.words[kernel.status])),
    el("td", { class: `n ${format.faster(kernel) ? "up" : ""}` }, format.speedup(kernel.speedup), el("small", {}, format.interval(kernel.speedup_ci95))),
    el("td", { class: "n" }, format.ms(kernel.runtime_ms)), el("td", { class: "n" }, format.ms(kernel.reference_ms)), el("td", { class: "n" }, format.percent(kernel.light_share)),
    el("td", {}, (kernel.labels ?? []).flatMap((label) => [el("span", { class: "tag" }, label), " "])), codeButton(board, kernel.entry, kernel.display_name));
}

function tables() {
  for (const table of document.querySelectorAll("table.kernels")) {
    table.tHead.rows[0].append(el("th", { scope: "col" }, "Code"));
    for (const row of table.tBodies[0].rows) row.append(codeButton(table.dataset.kernels, row.dataset.entry, row.cells[1].textContent));
  }
  for (const link of document.querySelectorAll("[data-all]")) {
    const board = link.dataset.all;
    const button = el("button", { type: "button", onclick: async () => {
      const all = (await fetchJson(`api/v1/problems/${board}/${problem}.json`)).kernels;
      document.querySelector(`table.kernels[data-kernels="${CSS.escape(board)}"]`).tBodies[0].replaceChildren(...all.map((kernel, at) => kernelRow(board, kernel, at)));
      button.remove();
      chosenRow();
    } }, "Show all");
    link.after(" ", button);
  }
}

for (const block of document.querySelectorAll("pre[data-plain]")) {
  block.closest("details").addEventListener("toggle", () => block.replaceChildren(highlight(block.textContent)), { once: true });
}
if (gpu.value || gpu.options?.length) {
  const wanted = state.read("board");
  if (wanted && gpu.options && [...gpu.options].some((item) => item.value === wanted)) gpu.value = wanted;
  viewer.hidden = false;
  tables();
  gpu.addEventListener("change", () => loadBoard());
  for (const field of [left, right, changed]) field.addEventListener("change", show);
  loadBoard({ isAddressed: true }).catch((error) => complain(`The kernels cannot be shown: ${error.message}`))
    .then(() => { if (location.hash === "#code") viewer.scrollIntoView(); });
}
