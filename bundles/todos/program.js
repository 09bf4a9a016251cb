// Finds the comments with `search`, reads each file once for comments that go on over several lines,
// and compares the total with the one remembered from the last run.

const KINDS = ["TODO", "FIXME", "XXX"];

// A comment sign of a common language, at the start or after a blank, and the word behind it on the same line.
const COMMENT = /(?<!\S)(#|\/\/|\/\*|<!--|--|;|%|\*)(.*?)\b(TODO|FIXME|XXX)\b(?:\(([^)]*)\))?:?\s*(.*)$/;

function run({ path, glob }) {
  const { entries } = tool("list", { path });
  log(`looking through ${path}: ${entries.length} entries`);

  const { lines, truncated } = findLines(path, glob);
  const files = [];
  const counts = { TODO: 0, FIXME: 0, XXX: 0 };
  for (const file of [...lines.keys()].sort()) {
    const items = readComments(file, [...lines.get(file)].sort((a, b) => a - b));
    if (items.length === 0) continue;
    for (const { kind } of items) counts[kind] += 1;
    files.push({ path: file, count: items.length, items });
  }

  const total = counts.TODO + counts.FIXME + counts.XXX;
  const change = compare(path, total);
  log(`${total} comments in ${files.length} files; ${change}`);
  return { path, total, counts, files, change, truncated };
}

// The lines that hold one of the words, by file. A Map, because a file may be called __proto__.
function findLines(path, glob) {
  const lines = new Map();
  let truncated = false;
  for (const kind of KINDS) {
    const found = tool("search", { text: kind, path, glob, limit: 1000 });
    truncated = truncated || found.truncated;
    for (const match of found.matches) {
      if (!lines.has(match.path)) lines.set(match.path, new Set());
      lines.get(match.path).add(match.line);
    }
  }
  return { lines, truncated };
}

// The comments of one file that begin on one of these lines.
function readComments(file, numbers) {
  const items = [];
  const first = numbers[0];
  const rows = readRows(file, first, numbers[numbers.length - 1] + 5);
  for (const line of numbers) {
    const match = findComment(rows[line - first] ?? "");
    if (match === null) continue;
    const [, sign, , kind, owner, rest] = match;
    const words = [clean(rest), ...continuation(rows, line - first + 1, sign)];
    items.push({ line, kind, owner: owner || undefined, text: words.filter(Boolean).join(" ") });
  }
  return items;
}

// The lines first to last of a file, in as many reads as it takes: one gives 256 KiB at most.
function readRows(file, first, last) {
  const rows = [];
  while (first + rows.length <= last) {
    const start = first + rows.length;
    const { text, lines, total_lines } = tool("read", { path: file, start, lines: last - start + 1 });
    rows.push(...text.split("\n").slice(0, lines));
    if (lines === 0 || start + lines > total_lines) break;
  }
  return rows;
}

// The comment of a line, unless a quote is open before it: then it is text inside code.
function findComment(row) {
  const match = COMMENT.exec(row);
  if (match === null) return null;
  const quotes = row.slice(0, match.index).match(/["'`]/g) ?? [];
  return quotes.length % 2 === 0 ? match : null;
}

// Up to four lines below that are nothing but a comment of the same kind and begin no comment of their own.
function continuation(rows, from, sign) {
  const words = [];
  for (const row of rows.slice(from, from + 4)) {
    const bare = row.trim();
    if (!bare.startsWith(sign) || COMMENT.test(row)) break;
    const rest = clean(bare.slice(sign.length));
    if (rest === "") break;
    words.push(rest);
  }
  return words;
}

function clean(text) {
  return text.replace(/(\*\/|-->)\s*$/, "").trim();
}

function compare(path, total) {
  const label = `comments under ${path}: `;
  const last = recall(label)[0];
  remember(label + total);
  if (last === undefined) return "first run here";
  const before = Number(last.text.slice(last.text.lastIndexOf(" ") + 1));
  if (total === before) return `as many as last time (${before})`;
  const more = total > before;
  return `${Math.abs(total - before)} ${more ? "more" : "fewer"} than last time (${before})`;
}
