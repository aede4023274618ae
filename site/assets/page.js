// What every page has: meanings that open in place, and charts that can be taken along.
import { offerToSave } from "./charts.js";
import { openInPlace } from "./meanings.js";

openInPlace();
for (const chart of document.querySelectorAll("svg.chart")) offerToSave(chart);
