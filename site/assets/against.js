// What speedups are held against: eager PyTorch, torch.compile, the best of PyTorch. The choice stays in the address.
import { fetchJson } from "./data.js";
import * as state from "./state.js";

const inputs = [...document.querySelectorAll("#against input")];

export const chosen = () => inputs.find((input) => input.checked)?.value ?? "eager";

// Problem to the reference's own speedup over eager PyTorch; null where that is the reference, or the board has no such.
export async function factors(board, name = chosen()) {
  if (name === "eager") return null;
  return (await fetchJson(`api/v1/boards/${board}.references.json`)).references[name] ?? null;
}

// Offers what a board was measured against, and eager PyTorch where it lacks what was chosen.
export async function offer(board) {
  const { references } = await fetchJson(`api/v1/boards/${board}.references.json`);
  for (const input of inputs) input.parentElement.hidden = input.value !== "eager" && !(input.value in references);
  if (inputs.some((input) => input.checked && input.parentElement.hidden)) inputs[0].checked = true;
  for (const field of document.querySelectorAll("#against")) field.hidden = !Object.keys(references).length;
  keep();
}

const keep = () => state.write({ against: chosen() === "eager" ? "" : chosen() });

export function onAgainst(apply) {
  state.settleRadios(inputs, "against");
  keep();
  for (const input of inputs) input.addEventListener("change", () => { keep(); apply(); });
}

// Speedup and interval of a row of the API against the reference.
export function over(row, factor) {
  if (!row?.speedup || !factor || factor === 1) return row;
  return { ...row, speedup: row.speedup / factor, speedup_ci95: row.speedup_ci95?.map((bound) => bound / factor) };
}
