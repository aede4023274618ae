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
