// The site's own check of a submission, outside of a browser: a line of base64 in, 1 (fits) or 0 out.
// Node takes .js for scripts of another kind, so the two modules are read as text.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [assets, schemaPath] = process.argv.slice(2);
const load = (name) => import(`data:text/javascript;base64,${readFileSync(`${assets}/${name}.js`).toString("base64")}`);
const { readJson, JsonError } = await load("json");
const { check } = await load("schema");
const schema = JSON.parse(readFileSync(schemaPath, "utf8"));

function fits(bytes) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return false;
  }
  if (!text.trim() || text.startsWith("\ufeff")) return false;
  try {
    const { value, mistakes } = readJson(text);
    return mistakes.length + check(value, schema).length === 0;
  } catch (error) {
    if (error instanceof JsonError) return false;
    throw error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(fits(Buffer.from(line, "base64")) ? "1\n" : "0\n");
}
