// Builds elements from text. Nothing here ever parses markup, so untrusted text stays text.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);
export const root = document.body.dataset.root;

export function debounce(work) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(work, 120); };
}

// Has the browser keep some text as a file.
export function saveFile(text, type, download) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download });
  link.click();
  URL.revokeObjectURL(link.href);
}
