// Checks a submission in the browser. The file never leaves this machine.
import { fetchJson } from "./data.js";
import { byId, el, root } from "./dom.js";
import { JsonError, lineAndColumn, pathText, readJson } from "./json.js";
import { check, unknownWords } from "./schema.js";

const LARGEST = 16 * 1024 * 1024; // as kbl validate
const SHOWN = 30;
const COUNTS = { 1: 100, 2: 100, 3: 50, 4: 20 };
const box = byId("validator");
let large = ""; // a file's text that is too long to be shown

function verdict(css, ...children) {
  byId("verdict").replaceChildren(el("div", { class: `verdict ${css}` }, ...children));
}

function mistakesOf(text, schema) {
  try {
    const { value, mistakes, where } = readJson(text);
    const found = [...mistakes, ...check(value, schema)];
    return { value, mistakes: found.map((item) => ({ ...item, at: item.at ?? where(item.path) })) };
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return { value: null, mistakes: [{ path: [], at: error.at, message: error.message, mend: error.mend }] };
  }
}

function nameless(value) { // judged as they are, like whatever does not parse
  const keys = Object.entries(value.kernels).filter(([, source]) => !/\bModelNew\b/.test(source)).map(([key]) => key);
  return keys.length ? ` ${keys.length} will fail to compile, since they never name ModelNew: ${keys.slice(0, SHOWN).join(", ")}${keys.length > SHOWN ? ", …" : ""}.` : "";
}

function summary(value) {
  const keys = Object.keys(value.kernels);
  const levels = Object.entries(COUNTS).map(([level, count]) => {
    const problems = new Set(keys.filter((key) => key.startsWith(`level_${level}_`)).map((key) => key.split("_")[3]));
    return problems.size ? `level ${level}: ${problems.size} of ${count} problems` : "";
  }).filter(Boolean);
  return `${keys.length} kernel${keys.length === 1 ? "" : "s"} of “${value.metadata.display_name}”, ${levels.join(", ")}.`;
}

async function run(text) {
  if (!text.trim()) return verdict("wrong", el("p", {}, "There is nothing to check: choose a file or paste one."));
  if (text.length > LARGEST) return verdict("wrong", el("p", {}, `A submission may have 16 MiB, this one has ${(text.length / 2 ** 20).toFixed(1)} MiB.`));
  const schema = await fetchJson(box.dataset.schema.slice(root.length));
  const unknown = [...unknownWords(schema)];
  const { value, mistakes } = mistakesOf(text.replace(/^\ufeff/, ""), schema);
  if (text.startsWith("\ufeff")) mistakes.unshift({ path: [], at: 0, message: "the file begins with a byte order mark", mend: "save it as UTF-8 without BOM" });
  if (mistakes.length) return verdict("wrong", el("p", {}, el("strong", {}, `${mistakes.length} mistake${mistakes.length > 1 ? "s" : ""}`)), list(text, mistakes));
  const rest = unknown.length ? ` Not checked here: ${unknown.join(", ")}.` : "";
  return verdict("right", el("p", {}, el("strong", {}, "This fits the schema. "), summary(value), nameless(value), rest), el("p", {}, "Next: the syntax of each kernel, with ", el("code", {}, "kbl validate"), "; then a pull request."));
}

function list(text, mistakes) {
  const items = mistakes.slice(0, SHOWN).map((mistake) => {
    const { line, column } = lineAndColumn(text, mistake.at);
    return el("li", {}, el("span", { class: "place" }, `line ${line}, column ${column}, ${pathText(mistake.path)}`), el("br"), `${mistake.message}. `, el("em", {}, `Mend: ${mistake.mend}.`));
  });
  if (mistakes.length > SHOWN) items.push(el("li", {}, `and ${mistakes.length - SHOWN} more`));
  return el("ul", {}, items);
}

async function readFile() {
  const [file] = byId("file").files;
  if (!file) return;
  byId("text").value = large = "";
  if (file.size > LARGEST) {
    verdict("wrong", el("p", {}, `A submission may have 16 MiB, this file has ${(file.size / 2 ** 20).toFixed(1)} MiB.`));
    return;
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
    if (text.length < 200_000) byId("text").value = text;
    else large = text;
    await run(text);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    verdict("wrong", el("p", {}, "The file is not UTF-8. Save it as UTF-8 and choose it again."));
  }
}

box.hidden = false;
byId("file").addEventListener("change", readFile);
byId("file").addEventListener("click", (event) => { event.target.value = ""; }); // so that the same file can be chosen again
byId("check").addEventListener("click", () => run(byId("text").value || large));
