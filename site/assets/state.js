// Keeps what a visitor chose in the address, so that a link shows the same.
const params = new URLSearchParams(location.search);

export const read = (name, fallback = "") => params.get(name) ?? fallback;

export function write(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) params.delete(name);
    else params.set(name, value);
  }
  const query = params.toString();
  history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
}

// A step back within the page leaves what was chosen, so the address says it again.
addEventListener("popstate", () => write({}));

const asItCame = (field) => (field.options
  ? field.selectedIndex === Math.max([...field.options].findIndex((option) => option.defaultSelected), 0)
  : field.value === field.defaultValue);

// A field holds what was chosen before the script came, else what the address says, else what the page came with.
export function settle(field, name) {
  const isKnown = !field.options || [...field.options].some((option) => option.value === read(name));
  if (asItCame(field) && params.has(name) && isKnown) field.value = read(name);
}

// The same for radio buttons; gives the value that holds.
export function settleRadios(inputs, name) {
  const early = inputs.find((input) => input.checked && !input.defaultChecked);
  const held = early ?? inputs.find((input) => input.value === read(name)) ?? inputs.find((input) => input.checked);
  if (held) held.checked = true;
  return held?.value;
}
