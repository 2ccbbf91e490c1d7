// A small part of Markdown, as elements: headings, lists, quotes, code, emphasis and links. It never
// makes markup of text, so whatever somebody writes, nothing runs and nothing is loaded.

import { el } from "./dom.js";

/** Deeper lists and quotes than this are shown as they were typed. */
const DEEPEST = 6;
const ITEM = /^(\s*)([-*+]|\d{1,4}[.)])\s+(.*)$/;
const FENCE = /^\s*```/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^\s*([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^\s*>\s?/;
const LINK = /^\[([^\]\n]{1,500})\]\(([^\s()]{1,2000})\)/;
/** Addresses that a link may lead to. Others are shown as text. */
const LEADS_ON = /^(https?:\/\/|mailto:)/i;

/** The elements of a text. */
export function markdown(text) {
  return blocks(text.replaceAll("\r\n", "\n").split("\n"), 0);
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    if (line.trim() === "") at += 1;
    else if (FENCE.test(line)) {
      const end = lines.findIndex((other, index) => index > at && FENCE.test(other));
      const last = end < 0 ? lines.length : end;
      made.push(el("pre", {}, el("code", {}, lines.slice(at + 1, last).join("\n"))));
      at = last + 1;
    } else if (heading) {
      // The page has its own title above these.
      const level = Math.min(heading[1].length + 2, 6);
      made.push(el(`h${level}`, { dir: "auto" }, ...inline(heading[2])));
      at += 1;
    } else if (RULE.test(line)) {
      made.push(el("hr"));
      at += 1;
    } else if (QUOTE.test(line) && depth < DEEPEST) {
      const end = lines.findIndex((other, index) => index > at && !QUOTE.test(other));
      const last = end < 0 ? lines.length : end;
      const inner = lines.slice(at, last).map((other) => other.replace(QUOTE, ""));
      made.push(el("blockquote", { dir: "auto" }, ...blocks(inner, depth + 1)));
      at = last;
    } else if (ITEM.test(line) && depth < DEEPEST) at = list(lines, at, depth, made);
    else {
      const from = at;
      at += 1;
      while (at < lines.length && !begins(lines[at])) at += 1;
      made.push(el("p", { dir: "auto" }, ...paragraph(lines.slice(from, at))));
    }
  }
  return made;
}

/** Whether a line ends the paragraph before it. */
function begins(line) {
  return [/^\s*$/, FENCE, HEADING, RULE, QUOTE, ITEM].some((start) => start.test(line));
}

/** A list: items of one kind, with everything that is indented below them. Returns where it ends. */
function list(lines, from, depth, made) {
  const [, indent, mark] = ITEM.exec(lines[from]);
  const ordered = /\d/.test(mark);
  const same = (line) => {
    const item = ITEM.exec(line);
    return item !== null && item[1].length <= indent.length && /\d/.test(item[2]) === ordered;
  };
  const items = [];
  let at = from;
  while (at < lines.length && same(lines[at])) {
    const inner = [ITEM.exec(lines[at])[3]];
    at += 1;
    while (at < lines.length && !same(lines[at]) && belongs(lines, at, indent.length)) {
      inner.push(lines[at].slice(Math.min(indent.length + 2, lines[at].search(/\S|$/))));
      at += 1;
    }
    const parts = blocks(inner, depth + 1);
    // One short paragraph is the item itself.
    const only = parts[0]?.tagName === "P" ? [...parts[0].childNodes] : [];
    if (only.length > 0) parts.splice(0, 1, ...only);
    items.push(el("li", { dir: "auto" }, ...parts));
  }
  const start = ordered && parseInt(mark, 10) !== 1 ? parseInt(mark, 10) : null;
  made.push(el(ordered ? "ol" : "ul", { start }, ...items));
  return at;
}

/** Whether a line is part of the item above: indented, its own words going on, or a gap in it. */
function belongs(lines, at, indent) {
  const line = lines[at];
  if (line.trim() === "") {
    const next = lines[at + 1] ?? "";
    return next.search(/\S/) > indent;
  }
  return line.search(/\S/) > indent || (!begins(line) && lines[at - 1].trim() !== "");
}

function paragraph(lines) {
  return lines.flatMap((line, index) => {
    const last = index === lines.length - 1;
    const breaks = !last && / {2,}$|\\$/.test(line);
    const text = breaks ? line.replace(/ +$|\\$/, "") : line;
    return [...inline(text.trim()), last ? null : breaks ? el("br") : " "];
  });
}

/** Emphasis, code and links of one line. */
function inline(text) {
  const made = [];
  let plain = "";
  const push = (element) => {
    if (plain !== "") made.push(plain);
    plain = "";
    made.push(element);
  };
  let at = 0;
  while (at < text.length) {
    const rest = text.slice(at);
    const found =
      /^\\([\\`*_[\]()#>+.!-])/.exec(rest) ??
      /^`([^`]+)`/.exec(rest) ??
      LINK.exec(rest) ??
      /^\*\*(\S(?:.*?\S)?)\*\*/.exec(rest) ??
      /^\*(\S(?:.*?\S)?)\*/.exec(rest) ??
      (/\w$/.test(text.slice(0, at)) ? null : /^_(\S(?:.*?\S)?)_(?!\w)/.exec(rest));
    if (!found) {
      plain += text[at];
      at += 1;
      continue;
    }
    at += found[0].length;
    if (found[0][0] === "\\") plain += found[1];
    else if (found[0][0] === "`") push(el("code", {}, found[1]));
    else if (found[0].startsWith("**")) push(el("strong", {}, ...inline(found[1])));
    else if (found[0][0] !== "[") push(el("em", {}, ...inline(found[1])));
    else if (LEADS_ON.test(found[2])) {
      const away = { href: found[2], target: "_blank", rel: "noopener noreferrer" };
      push(el("a", away, ...inline(found[1])));
    } else plain += found[0];
  }
  if (plain !== "") made.push(plain);
  return made;
}
