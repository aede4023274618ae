import {readFile} from "node:fs/promises";
import {fileURLToPath} from "node:url";
export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  return {format: "module", shortCircuit: true, source: `export default ${await readFile(fileURLToPath(url), "utf8")}`};
}
