// Fetches this site's own data, each file once; unpacks the compressed ones.
import { root } from "./dom.js";

const known = new Map();

export function fetchJson(path) {
  return remember(path, async () => (await answer(path)).json());
}

export function fetchPacked(path) {
  return remember(path, async () => JSON.parse(await unpacked(await answer(path))));
}

export const entryData = (board, entry) => fetchJson(`api/v1/entries/${board}/${encodeURIComponent(entry)}.json`);
export const rawResult = (board, entry) => fetchPacked(`api/v1/results/${board}/${encodeURIComponent(entry)}.json.gz`);

export async function kernelSource(entry, key, chunk) {
  const [, level, problem] = key.split(/\D+/).map(Number);
  const file = `kernels/${encodeURIComponent(entry)}/${level}-${Math.floor((problem - 1) / chunk)}.json.gz`;
  return (await fetchPacked(file))[key];
}

export async function fetchText(path) {
  return (await answer(path)).text();
}

function remember(path, load) {
  if (!known.has(path)) known.set(path, load().catch((error) => { known.delete(path); throw error; }));
  return known.get(path);
}

async function answer(path) {
  const response = await fetch(root + path);
  if (!response.ok) throw new Error(`${path} cannot be fetched: ${response.status}`);
  return response;
}

async function unpacked(response) {
  const body = new Uint8Array(await response.arrayBuffer());
  const packed = body[0] === 0x1f && body[1] === 0x8b; // some servers unpack on the way
  if (!packed) return new TextDecoder().decode(body);
  const stream = new Blob([body]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
