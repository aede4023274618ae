// Fetches this site's own data, each file once; unpacks the compressed ones.
import { root } from "./dom.js";

const known = new Map();

export function fetchJson(path) {
  return remember(path, async () => (await answer(path)).json());
}

export function fetchPacked(path) {
  return remember(path, async () => JSON.parse(await unpacked(await answer(path))));
}

export const entryData = (board, entry) => fetchPacked(`api/v1/entries/${board}/${encodeURIComponent(entry)}.json.gz`);

// A problem's sources lie by their digests in so many files, as leaderboard/render/parts/kernels.py writes them.
export async function kernelSource(problem, digest, shards) {
  const shard = Math.floor(parseInt(digest.slice(0, 2), 16) * shards / 256);
  return (await fetchPacked(`kernels/${problem}/${shard}.json.gz`).catch(() => ({})))[digest];
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
