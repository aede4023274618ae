// Reads JSON strictly and remembers where each value stands: repeated keys are mistakes, with line and column.
const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const DEEPEST = 64;

export class JsonError extends Error {
  constructor(message, at, mend) {
    super(message);
    this.at = at;
    this.mend = mend;
  }
}

export const pathText = (path) => path.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("").replace(/^\./, "") || "the file";

export function lineAndColumn(text, at) {
  const before = text.slice(0, at);
  return { line: before.split("\n").length, column: at - before.lastIndexOf("\n") };
}

export function readJson(text) {
  let at = 0;
  const mistakes = [];
  const places = new Map();

  const take = (pattern) => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (!match) return null;
    at += match[0].length;
    return match[0];
  };
  const space = () => take(SPACE);
  const fail = (message, mend) => { throw new JsonError(message, at, mend); };
  const found = () => (at < text.length ? `found ${JSON.stringify(text.slice(at, at + 12))}` : "the file ends here");

  function string(path) {
    const start = at;
    const raw = take(STRING);
    if (raw === null) fail(`a string is not closed, or holds a raw line break, ${found()}`, "write line breaks as \\n and close the quote");
    const value = JSON.parse(raw);
    if (!value.isWellFormed()) mistakes.push({ at: start, path, message: "a string holds half of a surrogate pair", mend: "save the text as UTF-8" });
    return value;
  }

  function members(path, depth) {
    const value = {};
    at += 1;
    space();
    if (text[at] === "}") { at += 1; return value; }
    for (;;) {
      space();
      const start = at;
      if (text[at] !== '"') fail(`a key in double quotes must stand here, ${found()}`, "remove a comma too many, or quote the key");
      const key = string(path);
      if (Object.hasOwn(value, key)) mistakes.push({ at: start, path: [...path, key], message: `the key ${JSON.stringify(key)} stands twice in one object`, mend: "keep one of them" });
      space();
      if (text[at] !== ":") fail(`":" must follow a key, ${found()}`, "write \"key\": value");
      at += 1;
      Object.defineProperty(value, key, { value: read([...path, key], depth + 1), enumerable: true, configurable: true, writable: true });
      space();
      if (text[at] === "}") { at += 1; return value; }
      if (text[at] !== ",") fail(`"," or "}" must stand here, ${found()}`, "separate members by commas");
      at += 1;
    }
  }

  function items(path, depth) {
    const value = [];
    at += 1;
    space();
    if (text[at] === "]") { at += 1; return value; }
    for (;;) {
      value.push(read([...path, value.length], depth + 1));
      space();
      if (text[at] === "]") { at += 1; return value; }
      if (text[at] !== ",") fail(`"," or "]" must stand here, ${found()}`, "separate items by commas");
      at += 1;
    }
  }

  function read(path, depth) {
    if (depth > DEEPEST) fail(`values may be nested ${DEEPEST} deep`, "a submission needs three levels");
    space();
    places.set(JSON.stringify(path), at);
    if (text[at] === "{") return members(path, depth);
    if (text[at] === "[") return items(path, depth);
    if (text[at] === '"') return string(path);
    const word = take(WORD) ?? take(NUMBER);
    if (!word) fail(`a value must stand here, ${found()}`, "JSON knows no NaN, no Infinity and no single quotes");
    return JSON.parse(word);
  }

  const value = read([], 0);
  space();
  if (at < text.length) fail(`nothing may follow the first value, ${found()}`, "a submission is one object");
  return { value, mistakes, where: (path) => places.get(JSON.stringify(path)) ?? 0 };
}
