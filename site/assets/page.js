// What every page has: meanings that open in place, charts that can be taken along, and what an address leads to unfolded.
import { liven } from "./charts.js";
import { handFocusOn } from "./heirs.js";
import { openInPlace } from "./meanings.js";

const unfold = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};

openInPlace();
handFocusOn();
unfold();
addEventListener("hashchange", unfold);
// What could not be fetched is said where the page says what it found; the console has the rest.
addEventListener("unhandledrejection", (event) => {
  const said = document.getElementById("found");
  if (said) said.textContent = `Something did not arrive: ${event.reason?.message ?? event.reason}. Reload the page to try again.`;
});
for (const chart of document.querySelectorAll("svg.chart")) liven(chart);
