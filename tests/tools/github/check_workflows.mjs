import {readFileSync} from "node:fs";
import {register} from "node:module";
register("./json_modules.mjs", import.meta.url);
const {parseWorkflow, NoOperationTraceWriter, convertWorkflowTemplate} = await import("@actions/workflow-parser");
let wrong = 0;
for (const path of process.argv.slice(2)) {
  const {context, value} = parseWorkflow({name: path, content: readFileSync(path, "utf8")}, new NoOperationTraceWriter());
  if (value) await convertWorkflowTemplate(context, value, undefined, {errorPolicy: 1});
  for (const error of context.errors.getErrors()) { console.log(`${path}: ${error}`); wrong = 1; }
}
process.exit(wrong);
