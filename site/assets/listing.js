// One source with numbered lines that can be linked to, and the launches that it shows.
import { el } from "./dom.js";
import { highlightedLines } from "./highlight.js";

const AT_ONCE = 20_000; // lines: a kernel may have half a million, of which no browser makes as many elements

export function drawCode(side) {
  const lines = highlightedLines(side.source.replace(/\n$/, ""));
  const row = (ink, number) => el("span", { class: "row", id: `L${number}` }, el("a", { href: `#L${number}`, "data-line": number, "aria-label": `Line ${number}`, tabindex: -1 }), ink(), "\n");
  const from = (start) => {
    const rows = lines.slice(start, start + AT_ONCE).map((ink, at) => row(ink, start + at + 1));
    const left = lines.length - start - rows.length;
    if (!left) return rows;
    const more = el("button", { type: "button", onclick: () => more.replaceWith(...from(start + AT_ONCE)) }, `${left} more lines`);
    return [...rows, more];
  };
  return el("pre", { class: "code numbered", tabindex: 0, "aria-label": `Kernel of ${side.name}` }, from(0));
}

// What a source says of its launches, shortened; of the first few alone.
export function launches(source) {
  const found = [...source.matchAll(/\b\w+\s*<<<[^;]{1,160}?>>>|^[ \t]*\w+\[[^\]\n]{1,80}\]\(|\bnum_(?:warps|stages)\s*=\s*\d+/gm)].map(([text]) => text.replace(/\s+/g, " ").trim().replace(/\($/, ""));
  return [...new Set(found)].filter((text) => !/^(?:for|if|return)\b/.test(text)).slice(0, 6);
}
