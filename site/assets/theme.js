// Sets light or dark before the page is drawn; the choice is kept in this browser.
(() => {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; } };
  const apply = (name) => { if (name === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", name); };
  let current = order.includes(read()) ? read() : "auto";
  apply(current);
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = `Theme: ${current}`; };
    label();
    button.hidden = false;
    button.addEventListener("click", () => {
      current = order[(order.indexOf(current) + 1) % order.length];
      apply(current);
      label();
      try { localStorage.setItem("theme", current); } catch { /* private mode: the choice lasts for this page */ }
    });
  });
})();
