// Charts as files: an SVG that stands alone, in the colours that are shown, with where it is from and the day.
import { el, svg } from "./dom.js";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "font-family", "font-size", "font-weight", "text-anchor"];
const FOOT = 26;

export function standalone(chart) {
  const copy = chart.cloneNode(true);
  const [from, to] = [chart, copy].map((node) => [node, ...node.querySelectorAll("*")]);
  from.forEach((node, at) => {
    const [style, around] = [getComputedStyle(node), node === chart ? null : getComputedStyle(node.parentNode)];
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value !== around?.getPropertyValue(name)) to[at].setAttribute(name, value); // all of them are inherited
    }
    to[at].removeAttribute("class");
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

export function offerToSave(chart) {
  const save = () => {
    const link = el("a", { href: URL.createObjectURL(new Blob([standalone(chart)], { type: "image/svg+xml" })), download: `${document.title.split(" · ")[0].replace(/[^\p{L}\p{N}.]+/gu, "-")}.svg` });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  chart.after(el("button", { type: "button", class: "save", onclick: save, "aria-label": `Save as SVG: ${chart.getAttribute("aria-label") ?? "chart"}` }, "Save as SVG"));
}
