// Colours kernel sources: Python, and C++ or CUDA inside its long strings. Works on tokens of text, never on markup.
import { el } from "./dom.js";

const PYTHON = /(?<c>#[^\n]*)|(?<s>[rRbBuUfF]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(?<m>\b\d[\w.]*)|(?<k>\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b)|(?<f>@[\w.]+|(?<=\b(?:def|class)\s+)\w+)/g;
const CUDA = /(?<c>\/\/[^\n]*|\/\*[^]*?(?:\*\/|$))|(?<s>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(?<m>\b\d[\w.]*)|(?<k>^[ \t]*#\w+|\b(?:__\w+__|auto|bool|break|case|char|class|const|constexpr|continue|default|do|double|else|enum|extern|false|float|float2|float4|for|half|if|inline|int|int32_t|int64_t|long|namespace|nullptr|return|short|signed|sizeof|size_t|static|struct|switch|template|true|typedef|typename|uint32_t|union|unsigned|using|void|volatile|while)\b)|(?<f>\b\w+(?=<<<))/gm;
const CUDA_SIGNS = /__global__|#include|torch::|at::Tensor/;
const LONGEST = 200_000;

function* scan(text, pattern) {
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) yield ["", text.slice(at, match.index)];
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    yield [kind, match[0]];
    at = match.index + match[0].length;
  }
  if (at < text.length) yield ["", text.slice(at)];
}

function* tokens(source) {
  if (source.length > LONGEST) {
    yield ["", source];
    return;
  }
  for (const [kind, text] of scan(source, PYTHON)) {
    if (kind === "s" && CUDA_SIGNS.test(text)) yield* scan(text, CUDA);
    else yield [kind, text];
  }
}

const piece = ([kind, text]) => (kind ? el("span", { class: kind }, text) : document.createTextNode(text));

export function highlight(source) {
  const fragment = document.createDocumentFragment();
  fragment.append(...[...tokens(source)].map(piece));
  return fragment;
}

export function highlightedLines(source) {
  const lines = [[]];
  for (const [kind, text] of tokens(source)) {
    text.split("\n").forEach((part, at) => {
      if (at) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  }
  return lines.map((line) => () => line.map(piece));
}
