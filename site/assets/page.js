// What every page has: meanings that open in place, charts that can be taken along, and what an address leads to unfolded.
import { offerToSave } from "./charts.js";
import { openInPlace } from "./meanings.js";

const unfold = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};

openInPlace();
unfold();
addEventListener("hashchange", unfold);
for (const chart of document.querySelectorAll("svg.chart")) offerToSave(chart);
