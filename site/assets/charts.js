// What every chart can: its dots are one stop of the Tab key, and it can be saved as a file.
import { el, saveFile, svg } from "./dom.js";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "font-family", "font-size", "font-weight", "text-anchor"];
const SHOWN_ONLY = ["class", "tabindex", "aria-description"];
const FOOT = 26;

export function liven(chart) {
  oneStop(chart);
  offerToSave(chart);
}

// Arrows go from dot to dot as they stand from left to right, so that Tab leads past a chart.
function oneStop(chart) {
  const across = (link) => Number(link.querySelector("circle").getAttribute("cx"));
  const dots = [...chart.querySelectorAll("a:has(circle)")].sort((one, other) => across(one) - across(other));
  if (dots.length < 2) return;
  const stopAt = (stop) => dots.forEach((dot) => dot.setAttribute("tabindex", dot === stop ? 0 : -1));
  const targets = { ArrowRight: (at) => at + 1, ArrowLeft: (at) => at - 1, Home: () => 0, End: () => dots.length - 1 };
  chart.setAttribute("aria-description", "Left and right arrows go from dot to dot");
  chart.addEventListener("focusin", (event) => stopAt(event.target));
  chart.addEventListener("keydown", (event) => {
    const target = targets[event.key]?.(dots.indexOf(event.target));
    if (target === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    dots[target]?.focus();
  });
  stopAt(dots[0]);
}

// A saved chart stands alone: in the colours that are shown, with where it is from and the day.
function standalone(chart) {
  const copy = chart.cloneNode(true);
  const [from, to] = [chart, copy].map((node) => [node, ...node.querySelectorAll("*")]);
  from.forEach((node, at) => {
    const [style, around] = [getComputedStyle(node), node === chart ? null : getComputedStyle(node.parentNode)];
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value !== around?.getPropertyValue(name)) to[at].setAttribute(name, value); // all of them are inherited
    }
    for (const name of SHOWN_ONLY) to[at].removeAttribute(name);
    if (node.hasAttribute("href")) to[at].setAttribute("href", new URL(node.getAttribute("href"), location.href).href);
  });
  const { x, y, width, height } = chart.viewBox.baseVal;
  const plain = { "font-family": "sans-serif", "font-size": 11, fill: getComputedStyle(document.body).color, stroke: "none" };
  copy.prepend(svg("rect", { x, y, width, height: height + FOOT, fill: getComputedStyle(document.body).backgroundColor, stroke: "none" }));
  copy.append(svg("text", { x: x + 8, y: y + height + 16, ...plain, "text-anchor": "start" },
    `${document.title} · ${new Date().toISOString().slice(0, 10)} · ${location.host}${location.pathname}`));
  for (const [name, value] of Object.entries({ viewBox: `${x} ${y} ${width} ${height + FOOT}`, width, height: height + FOOT, role: "img" })) copy.setAttribute(name, value);
  return new XMLSerializer().serializeToString(copy);
}

function offerToSave(chart) {
  const save = () => saveFile(standalone(chart), "image/svg+xml", `${document.title.split(" · ")[0].replace(/[^\p{L}\p{N}.]+/gu, "-")}.svg`);
  chart.after(el("button", { type: "button", class: "save", onclick: save, "aria-label": `Save as SVG: ${chart.getAttribute("aria-label") ?? "chart"}` }, "Save as SVG"));
}
