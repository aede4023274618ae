// The fast@p curve: how many problems are correct and at least p times as fast, for every p.
import { el, svg } from "./dom.js";
import { percent } from "./format.js";

const RANGE = [0.25, 16];
const SIZE = [720, 300];
const MARGIN = { left: 44, top: 12, right: 12, bottom: 34 }; // as in leaderboard/render/parts/charts.py

// To the two digits that are shown, so that what is counted is what is read; halves are met exactly.
export function fromSlider(value) {
  const exact = RANGE[0] * (RANGE[1] / RANGE[0]) ** (value / 1000);
  const half = Math.round(2 * exact) / 2;
  return half && toSlider(half) === value ? half : Number(exact.toFixed(2));
}

export const toSlider = (p) => Math.round(1000 * Math.log(p / RANGE[0]) / Math.log(RANGE[1] / RANGE[0]));

const across = (p) => {
  const share = Math.log(p / RANGE[0]) / Math.log(RANGE[1] / RANGE[0]);
  return MARGIN.left + (SIZE[0] - MARGIN.left - MARGIN.right) * share;
};
const upward = (share) => MARGIN.top + (SIZE[1] - MARGIN.top - MARGIN.bottom) * (1 - share);

const solved = (speedups, p) => speedups.reduce((sum, value) => sum + (value >= p), 0);

function path(speedups, problems) {
  const inside = speedups.filter((value) => value >= RANGE[0] && value < RANGE[1]).sort((a, b) => a - b);
  let left = solved(speedups, RANGE[0]);
  let line = `M${across(RANGE[0])} ${upward(left / problems).toFixed(1)}`;
  for (const value of inside) line += `H${across(value).toFixed(1)}V${upward(--left / problems).toFixed(1)}`;
  return `${line}H${across(RANGE[1])}`;
}

export function drawCurves(figure, series, p) {
  const chart = figure.querySelector(".chart");
  const lines = chart.querySelector(".lines");
  lines.replaceChildren(
    ...series.map((item, at) => svg("path", { class: `c${at + 1}`, d: path(item.speedups, item.problems) })),
    svg("line", { class: "pin", x1: across(p), x2: across(p), y1: MARGIN.top, y2: SIZE[1] - MARGIN.bottom }),
  );
  const readings = series.map((item) => {
    const number = solved(item.speedups, p);
    return { ...item, number, share: percent(number / item.problems) };
  });
  chart.setAttribute("aria-label", `fast@${p.toFixed(2)}: ${readings.map((r) => `${r.name} ${r.share}`).join(", ")}`);
  figure.querySelector(".keys").replaceChildren(...readings.map((item, at) => el("li", {},
    svg("svg", { viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true" },
      svg("path", { class: `c${at + 1}`, d: "M0 4H24" })), " ",
    el("a", { href: item.page }, item.name), " ",
    el("span", { class: "n" }, `${item.share} `), el("small", {}, `${item.number} of ${item.problems}`))));
}
