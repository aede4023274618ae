// What must be settled before the page is drawn: light or dark, as kept in this browser, whether the other scripts
// will come, and which rows of a long board wait.
(() => {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  const read = () => { try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; } };
  const apply = (name) => { if (name === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", name); };
  const isFile = location.protocol === "file:"; // modules come from servers alone
  if (!isFile) root.classList.add("js"); // what scripts fill has its place before they run
  const notice = () => {
    const told = document.createElement("p");
    told.className = "notice";
    const command = document.createElement("code");
    command.textContent = "kbl site serve";
    told.append("This page was opened as a file. Search, switches and comparisons need a server: ", command, " is one.");
    return told;
  };
  let current = order.includes(read()) ? read() : "auto";
  apply(current);
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = `Theme: ${current}`; };
    label();
    button.hidden = false;
    if (isFile) document.getElementById("main").prepend(notice());
    button.addEventListener("click", () => {
      current = order[(order.indexOf(current) + 1) % order.length];
      apply(current);
      label();
      try { localStorage.setItem("theme", current); } catch { /* private mode: the choice lasts for this page */ }
    });
  });
})();

// Rows below every screen's edge are laid out a second after the page has been read, or at the first move towards
// them; at once where the browser is about to return to a place in the page.
(() => {
  const root = document.documentElement;
  const visit = performance.getEntriesByType("navigation")[0];
  if (!visit || visit.type !== "navigate" || location.hash) return;
  const moves = ["scroll", "keydown"];
  const whole = () => {
    root.classList.remove("early");
    for (const type of moves) removeEventListener(type, whole);
  };
  root.classList.add("early");
  for (const type of moves) addEventListener(type, whole);
  addEventListener("DOMContentLoaded", () => setTimeout(whole, 1000));
})();
