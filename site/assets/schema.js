// Checks a value against the part of JSON Schema (draft 2020-12) that the submission's schema uses.
const KINDS = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};
const KNOWN = new Set(["$schema", "$id", "$ref", "$defs", "$comment", "title", "description", "examples", "default", "type", "required", "properties",
  "additionalProperties", "propertyNames", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum", "enum", "const", "items", "maxItems", "minItems"]);

const shortened = (value) => {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
};
const letters = (text) => [...text].length;

export function unknownWords(schema, found = new Set()) {
  for (const [word, part] of Object.entries(schema)) {
    if (!KNOWN.has(word)) found.add(word);
    if (["properties", "$defs"].includes(word)) for (const child of Object.values(part)) unknownWords(child, found);
    if (["additionalProperties", "propertyNames", "items"].includes(word) && typeof part === "object") unknownWords(part, found);
  }
  return found;
}

export function check(value, schema, whole = schema, path = []) {
  const mistakes = [];
  const say = (message, mend, at = path) => mistakes.push({ path: at, message, mend });
  const rule = schema.$ref ? { ...schema.$ref.slice(2).split("/").reduce((part, name) => part[name], whole), ...schema } : schema;
  const hint = rule.description ? `it is: ${rule.description}` : "see the schema";
  if (rule.type && ![rule.type].flat().some((name) => KINDS[name](value))) {
    say(`must be ${[rule.type].flat().join(" or ")}, found ${shortened(value)}`, hint);
    return mistakes;
  }
  if (rule.enum && !rule.enum.includes(value)) say(`must be one of ${rule.enum.map(shortened).join(", ")}, found ${shortened(value)}`, hint);
  if (typeof value === "string") strings(value, rule, say, hint);
  if (typeof value === "number") numbers(value, rule, say, hint);
  if (KINDS.object(value)) mistakes.push(...members(value, rule, whole, path, say));
  if (Array.isArray(value) && rule.items) value.forEach((item, at) => mistakes.push(...check(item, rule.items, whole, [...path, at])));
  return mistakes;
}

function strings(value, rule, say, hint) {
  if (rule.minLength !== undefined && letters(value) < rule.minLength) say(`must have at least ${rule.minLength} characters, has ${letters(value)}`, hint);
  if (rule.maxLength !== undefined && letters(value) > rule.maxLength) say(`must have at most ${rule.maxLength} characters, has ${letters(value)}`, hint);
  if (rule.pattern && !new RegExp(rule.pattern, "u").test(value)) say(`must match ${rule.pattern}, found ${shortened(value)}`, hint);
}

function numbers(value, rule, say, hint) {
  if (rule.minimum !== undefined && value < rule.minimum) say(`must be at least ${rule.minimum}, found ${value}`, hint);
  if (rule.maximum !== undefined && value > rule.maximum) say(`must be at most ${rule.maximum}, found ${value}`, hint);
}

function members(value, rule, whole, path, say) {
  const mistakes = [];
  const names = Object.keys(value);
  if (rule.minProperties !== undefined && names.length < rule.minProperties) say(`must have at least ${rule.minProperties} member`, rule.description ?? "add one");
  for (const name of rule.required ?? []) if (!Object.hasOwn(value, name)) say(`lacks the field ${JSON.stringify(name)}`, `add ${JSON.stringify(name)}`);
  for (const name of names) {
    const at = [...path, name];
    if (rule.propertyNames) {
      const wrong = check(name, rule.propertyNames, whole, at);
      for (const mistake of wrong) mistakes.push({ ...mistake, message: `the key ${mistake.message}`, mend: "write it like level_1_problem_23_sample_0" });
    }
    const own = rule.properties && Object.hasOwn(rule.properties, name) ? rule.properties[name] : rule.additionalProperties;
    if (own === false) mistakes.push({ path: at, message: `the field ${JSON.stringify(name)} is not known`, mend: `known here: ${Object.keys(rule.properties ?? {}).join(", ")}` });
    else if (own && own !== true) mistakes.push(...check(value[name], own, whole, at));
  }
  return mistakes;
}
