// Writes figures the way leaderboard/render/parts/numbers.py does; a test compares the two.
const NONE = "–";
const NARROW = "\u202f";

function digits(value) {
  if (value === 0) return "0";
  const places = 2 - Math.floor(Math.log10(Math.abs(value)) + 1e-12);
  const most = Math.abs(value) < 0.01 ? 6 : Math.abs(value) < 0.1 ? 3 : 2;
  return value.toFixed(Math.min(Math.max(places, 0), most));
}

const known = (value) => typeof value === "number" && Number.isFinite(value);
export const speedup = (value) => (known(value) ? `${digits(value)}×` : NONE);
export const interval = (bounds) => (bounds ? `${digits(bounds[0])}–${digits(bounds[1])}` : "");
export const percent = (share) => (known(share) ? `${(100 * share).toFixed(1)}${NARROW}%` : NONE);
export const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, NARROW);

export function ms(value) {
  if (!known(value)) return NONE;
  return value < 0.1 ? `${digits(1000 * value)}${NARROW}µs` : `${digits(value)}${NARROW}ms`;
}

export const words = {
  correct: "correct", mismatch: "wrong result", fragile: "fragile", compile_error: "does not compile", runtime_error: "fails at run time",
  timeout: "too slow to finish", out_of_memory: "out of memory", rejected: "rejected", quarantined: "quarantined",
  infra_error: "not measured",
};

// What counts: the speedup of a correct kernel; a quarantined one carries a figure that does not.
export const fast = (row) => (row?.status === "correct" && row.speedup ? row.speedup : null);
// Beyond doubt: the whole interval lies above 1.
export const faster = (row) => Boolean(fast(row) && row.speedup_ci95?.[0] > 1);

export function problemOf(key) {
  const [, level, problem, sample] = /^level_(\d)_problem_(\d+)_sample_(\d+)$/.exec(key);
  return { level: Number(level), problem: Number(problem), sample: Number(sample), id: `${level}_${problem}` };
}
