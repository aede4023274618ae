// One source with numbered lines that can be linked to, and the launches that it shows.
import { el } from "./dom.js";
import { highlightedLines } from "./highlight.js";

export function drawCode(side) {
  const lines = highlightedLines(side.source.replace(/\n$/, ""));
  const rows = lines.map((ink, at) => el("span", { class: "row", id: `L${at + 1}` }, el("a", { href: `#L${at + 1}`, "data-line": at + 1, "aria-label": `Line ${at + 1}`, tabindex: -1 }), ink(), "\n"));
  return el("pre", { class: "code numbered", tabindex: 0, "aria-label": `Kernel of ${side.name}` }, rows);
}

// What a source says of its launches, shortened; of the first few alone.
export function launches(source) {
  const found = [...source.matchAll(/\b\w+\s*<<<[^;]{1,160}?>>>|^[ \t]*\w+\[[^\]\n]{1,80}\]\(|\bnum_(?:warps|stages)\s*=\s*\d+/gm)].map(([text]) => text.replace(/\s+/g, " ").trim().replace(/\($/, ""));
  return [...new Set(found)].filter((text) => !/^(?:for|if|return)\b/.test(text)).slice(0, 6);
}
