// A button that is gone once it was pressed leaves the focus to what came in its place, so that a keyboard goes on from there.
let watch = null;

function heirOf(chain) {
  const { parent, before } = chain.find((step) => step.parent.isConnected);
  const heir = (before?.isConnected ? before.nextElementSibling : parent.firstElementChild) ?? parent;
  if (heir.tabIndex < 0) heir.tabIndex = -1;
  return heir;
}

export function handFocusOn() {
  document.addEventListener("click", ({ target }) => {
    watch?.disconnect();
    const button = target.closest?.("main button");
    if (!button) return;
    const chain = [];
    for (let node = button; node !== document.body; node = node.parentElement) chain.push({ parent: node.parentElement, before: node.previousElementSibling });
    watch = new MutationObserver(() => {
      if (button.isConnected) return;
      watch.disconnect();
      if (document.activeElement === document.body) heirOf(chain).focus({ preventScroll: true });
    });
    watch.observe(document.body, { childList: true, subtree: true });
  }, { capture: true });
}
