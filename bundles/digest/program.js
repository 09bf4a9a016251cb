// Reads the files and asks for a summary of each, all at the same time; then one more prompt merges the summaries.
// A file that cannot be read or summarised is reported, and the others go on.

const SUMMARY = {
  type: "object",
  properties: {
    summary: { type: "string", minLength: 1 },
    points: { type: "array", items: { type: "string" }, maxItems: 7 },
  },
  required: ["summary", "points"],
  additionalProperties: false,
};

async function run({ path, suffix, files: most, question }) {
  const { entries, truncated } = await tool("list", { path, depth: 4 });
  const wanted = entries
    .filter((entry) => entry.kind === "file" && entry.path.endsWith(suffix))
    .sort((a, b) => b.size - a.size || (a.path < b.path ? -1 : 1))
    .slice(0, most);
  if (wanted.length === 0) throw new Error(`no file under ${path} ends in ${suffix}`);
  await log(`summarising ${wanted.length} files${truncated ? " of a list that was cut" : ""}`);

  const files = [];
  const skipped = [];
  await Promise.all(
    wanted.map(async (entry) => {
      try {
        files.push(await summarise(entry.path));
      } catch (error) {
        skipped.push({ path: entry.path, why: error.message });
      }
    }),
  );
  if (files.length === 0) throw new Error(`none of ${wanted.length} files could be summarised: ${skipped[0].why}`);

  // Answers come in any order; the digest must not depend on it.
  const byPath = (a, b) => (a.path < b.path ? -1 : 1);
  files.sort(byPath);
  skipped.sort(byPath);
  const digest = await ai("merge", { question, files });
  await log(`merged ${files.length} summaries, ${skipped.length} files skipped`);
  return { digest: text(digest), files, skipped };
}

async function summarise(path) {
  const file = await tool("read", { path, lines: 1000 });
  const input = { path, text: file.text, cut: file.truncated };
  const { summary, points } = await ai("summarise", input, { schema: SUMMARY, effort: "low" });
  return { path, summary, points };
}

function text(answer) {
  return typeof answer === "string" ? answer : JSON.stringify(answer);
}
