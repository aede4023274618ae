// Opens what a figure means where it stands, in the words of the page that the sign leads to.
import { el, root } from "./dom.js";

const pages = new Map();

export const meaning = (anchor, of) => el("a", { class: "what", href: `${root}method.html#${anchor}`, "aria-label": `What ${of} means`, title: `What ${of} means` }, "?");

async function pageAt(address) {
  if (!pages.has(address)) {
    const text = fetch(address).then((answer) => (answer.ok ? answer.text() : Promise.reject(new Error(answer.statusText))));
    pages.set(address, text.then((html) => new DOMParser().parseFromString(html, "text/html")).catch((error) => { pages.delete(address); throw error; }));
  }
  return pages.get(address);
}

// What stands under a heading, up to the next of its rank.
function under(heading) {
  const found = [];
  for (let node = heading.nextElementSibling; node && node.tagName !== heading.tagName; node = node.nextElementSibling) found.push(node);
  return found;
}

function plainly(node, address) {
  const copy = document.importNode(node, true);
  for (const inner of [copy, ...copy.querySelectorAll("*")]) inner.removeAttribute("id");
  for (const link of copy.querySelectorAll("a[href]")) link.href = new URL(link.getAttribute("href"), address).href;
  return copy;
}

async function open(sign) {
  const address = new URL(sign.getAttribute("href"), location.href);
  const heading = (await pageAt(address.pathname)).getElementById(address.hash.slice(1));
  if (!heading) throw new Error("no such heading");
  const box = el("div", { class: "meaning", popover: "auto", role: "dialog", "aria-label": heading.textContent, tabindex: -1 },
    el("strong", {}, heading.textContent), under(heading).map((node) => plainly(node, address)), el("p", {}, el("a", { href: address.href }, "On its own page")));
  document.body.append(box);
  box.showPopover();
  const at = sign.getBoundingClientRect();
  box.style.top = `${Math.max(8, Math.min(at.bottom + 6, innerHeight - box.offsetHeight - 8))}px`;
  box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - box.offsetWidth - 8))}px`;
  box.focus();
  box.addEventListener("toggle", (event) => { if (event.newState === "closed") { box.remove(); sign.focus({ preventScroll: true }); } });
}

export function openInPlace() {
  if (!("popover" in HTMLElement.prototype)) return;
  document.addEventListener("click", (event) => {
    const sign = event.target.closest?.("a.what");
    if (!sign || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    open(sign).catch(() => { location.href = sign.href; });
  });
}
