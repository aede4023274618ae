// An entry's kernels with all that is known of them, in the place of the short rows that the page comes with: sort,
// search, filter, and what speedups are against; and the links of its roofline's dots.
import { chosen as against, factors, onAgainst, over } from "./against.js";
import { entryData, fetchJson } from "./data.js";
import { byId, el, root, svg } from "./dom.js";
import { filtered } from "./filters.js";
import * as format from "./format.js";
import { meaning } from "./meanings.js";
import { sortable } from "./table.js";

const table = byId("table");
const { board, entry } = table.dataset;
const MARGIN = { left: 64, top: 14, right: 110, bottom: 40 }; // as in leaderboard/render/parts/plots.py
const SIZE = [720, 320];

const HEADS = [
  ["Problem", "key", ""], ["Status", "text", "status"], ["Speedup", "number", ""], ["95 %", "", ""], ["Kernel", "number", ""],
  ["PyTorch", "number", ""], ["Light speed", "number", "light"], ["Labels", "text", "labels"],
];

const address = (problem, sample = 0) => `${root}problems/${problem}.html?board=${board}&a=${entry}${sample ? `&sample=${sample}` : ""}#code`;

function head() {
  return el("tr", {}, HEADS.map(([words, type, anchor]) => el("th", { scope: "col", class: /number/.test(type) || words === "95 %" ? "n" : null, "data-type": type || null },
    words, anchor ? " " : "", anchor ? meaning(anchor, words) : "")));
}

function line(row, titles) {
  const { level, problem, sample, id } = format.problemOf(row.key);
  const number = (value, words, css = "n") => el("td", { class: css, "data-value": value ?? "" }, words);
  const figures = row.speedup
    ? [number(row.speedup, format.speedup(row.speedup), format.faster(row) ? "n up" : "n"), el("td", { class: "n soft" }, format.interval(row.speedup_ci95)),
      number(row.runtime_ms, format.ms(row.runtime_ms)), number(row.reference_ms, format.ms(row.reference_ms)), number(row.light_share, format.percent(row.light_share))]
    : [el("td", { class: "n" }, "–"), ...Array.from({ length: 4 }, () => el("td", {}))];
  return el("tr", { "data-level": level, "data-status": row.status, "data-problem": id },
    el("th", { scope: "row", "data-value": level * 100000 + problem * 100 + sample }, el("a", { href: address(id, sample) }, `${level}/${problem}${sample ? ` #${sample}` : ""}`), ` ${titles[id]?.title ?? ""}`),
    el("td", {}, el("span", { class: `status ${row.status}` }, format.words[row.status]), row.failure ? el("small", {}, row.failure) : ""),
    figures, el("td", {}, (row.labels ?? []).flatMap((label) => [el("span", { class: "tag" }, label), " "])));
}

// Links over the points of the drawing: where they stand follows from the bounds of its axes.
function linkDots(rows, problems) {
  const chart = document.querySelector("svg.roofline[data-bounds]");
  if (!chart) return;
  const [lowX, highX, lowY, highY] = chart.dataset.bounds.split(" ").map(Number);
  const share = (value, low, high) => Math.min(Math.max(Math.log(value / low) / Math.log(high / low), 0), 1);
  const dots = rows.filter((row) => format.fast(row) && format.problemOf(row.key).sample === 0 && problems[format.problemOf(row.key).id]?.roofline?.flops).map((row) => {
    const { level, problem, id } = format.problemOf(row.key);
    const roof = problems[id].roofline;
    const rate = roof.flops / (row.runtime_ms * 1e9);
    const words = `${level}/${problem}: ${Number(rate.toPrecision(3))} TFLOP/s, ${Number((roof.bytes / (row.runtime_ms * 1e6)).toPrecision(4))} GB/s, ${format.percent(row.light_share)} of light speed`;
    return svg("a", { href: address(id), "aria-label": words }, svg("circle", {
      class: `dot${row.runtime_ms < roof.compute_ms.fp16 ? " b" : ""}`, r: 4,
      cx: (MARGIN.left + (SIZE[0] - MARGIN.left - MARGIN.right) * share(roof.flops / roof.bytes, lowX, highX)).toFixed(1),
      cy: (SIZE[1] - MARGIN.bottom - (SIZE[1] - MARGIN.top - MARGIN.bottom) * share(rate, lowY, highY)).toFixed(1),
    }, svg("title", {}, words)));
  });
  chart.querySelector(".spots").replaceWith(...dots);
  chart.setAttribute("role", "group");
}

const linkOf = (row) => row.querySelector("a").getAttribute("href");

// Where a reader is in the rows, by focus or by scrolling; gives what leads back there once others stand in their place.
function placeOfReader() {
  const box = table.closest(".scroll");
  const rows = [...table.tBodies[0].rows];
  const focused = rows.find((row) => row.contains(document.activeElement));
  const isScrolled = box.scrollTop > 0 || table.getBoundingClientRect().top < 0;
  const from = Math.max(box.getBoundingClientRect().top, 0);
  const seen = focused ?? (isScrolled ? rows.find((row) => row.getBoundingClientRect().top >= from) : null);
  const top = seen?.getBoundingClientRect().top;
  return () => {
    const now = seen && [...table.tBodies[0].rows].find((row) => linkOf(row) === linkOf(seen));
    if (!now) return;
    if (focused) now.querySelector("a").focus({ preventScroll: true });
    for (const scrolled of [box, document.scrollingElement]) scrolled.scrollTop += now.getBoundingClientRect().top - top;
  };
}

async function start() {
  const [data, { problems }] = await Promise.all([entryData(board, entry), fetchJson(`api/v1/boards/${board}.problems.json`)]);
  let [sort, show] = [() => {}, () => {}];
  const draw = async () => {
    const name = against();
    const divide = await factors(board, name);
    if (name !== against()) return draw(); // another was chosen meanwhile
    const goBack = placeOfReader();
    if (!table.tHead.querySelector("[data-type]")) table.tHead.replaceChildren(head());
    table.tBodies[0].replaceChildren(...data.rows.map((row) => line(over(row, divide?.[format.problemOf(row.key).id]), problems)));
    sort();
    show();
    goBack();
  };
  onAgainst(draw);
  await draw();
  sort = sortable(table);
  show = filtered(table);
  linkDots(data.rows, problems);
}

start();
