"""Mistakes that authors make, each put into a bundle that is otherwise in order: `check` must find it, and where.

In the text that is put in, `«code»` marks the place of the finding.
"""

import re
from pathlib import Path

import pytest

from jsrun.cli.check import check_bundle

PROMPTS = {"summarise": "Summarise the text.", "merge": "Merge the summaries."}

MANIFEST = """\
{
  "name": "report",
  "purpose": "Summarise the files of a folder.",
  "input": {
    "type": "object",
    "properties": {
      "path": { "type": "string", "default": "." },
      "most": { "type": "integer", "minimum": 1 },
      "tone": { "enum": ["plain", "formal"] }
    },
    "additionalProperties": false
  },
  "output": {
    "type": "object",
    "properties": { "report": { "type": "string" } },
    "required": ["report"]
  },
  "whitelist": ["list", "read"],
  "guards": [
    { "kind": "tool", "tool": "list", "because": "Nothing can be listed." },
    { "kind": "judgement", "question": "Is this about files?" }
  ],
  "deadline_floor": "5m",
  "fuel": { "steps": 200, "memory": "64MiB" }
}
"""

ASYNC = """\
// Summarises files at the same time.
const SUMMARY = {
  type: "object",
  properties: { summary: { type: "string" } },
  required: ["summary"],
};

async function run({ path, most }) {
  const { entries } = await tool("list", { path, depth: 2 });
  const files = entries.filter((entry) => entry.kind === "file").slice(0, most ?? 20);
  await log(`reading ${files.length} files`);
  const parts = await Promise.all(
    files.map(async (file) => {
      try {
        return await summarise(file.path);
      } catch (error) {
        if (!(error instanceof DoorError)) throw error;
        return { path: file.path, summary: error.message };
      }
    }),
  );
  const earlier = await recall(path);
  const report = await ai("merge", { parts, earlier }, { effort: "low" });
  const fine = await ask("Is this fine?", { options: ["yes", "no"], default: "yes" });
  if (fine === "yes") await remember(report);
  return { report };
}

async function summarise(path) {
  const { text } = await tool("read", { path });
  const { summary } = await ai("summarise", text, { schema: SUMMARY });
  return { path, summary };
}
"""

SYNC = """\
function run(input) {
  const { entries } = tool("list", { path: input.path });
  const lines = [];
  for (const entry of entries) {
    const { text, truncated } = tool("read", { path: entry.path });
    if (truncated) continue;
    lines.push(text.split(/\\\\r?\\\\n/)[0]);
  }
  const report = ai("summarise", lines.join("\\n"));
  const all = ai("merge", { report, tone: input.tone });
  return { report: all };
}
"""

EVAL = """\
{
  "name": "one file",
  "input": { "path": "docs" },
  "look": { "tools": ["list"] },
  "doors": [
    { "door": "ai", "text": "yes" },
    { "door": "tool", "ref": "list", "output": { "entries": [] } },
    { "door": "ai", "ref": "merge", "text": "nothing" },
    { "door": "ask", "text": "no" },
    { "door": "recall", "output": [] },
    { "door": "log", "times": "any" }
  ],
  "expect": { "status": "finished", "output": { "subset": { "report": "nothing" } } }
}
"""

FILES = {"manifest.json": MANIFEST, "program.js": ASYNC, "evals/one.json": EVAL}

# In the async program: what stands there, what is put in its place.
IN_ASYNC: list[tuple[str, str]] = [
    # names of prompts and tools
    ('ai("merge", {', 'ai(«missing-prompt»"merg", {'),
    ('ai("merge", {', 'ai(«missing-prompt»"prompt/merge.md", {'),
    ('ai("merge", {', 'ai(«missing-prompt»"Merge", {'),
    ('ai("merge", {', 'ai(«inline-prompt»"Merge these summaries into one report.", {'),
    ('ai("merge", {', 'ai(most ? "merge" : «missing-prompt»"mergeAll", {'),
    ('await ai("merge", {', 'await «dynamic-prompt»ai("mer" + path, {'),
    ('tool("read", {', 'tool(«tool-not-whitelisted»"read_file", {'),
    ('tool("read", {', 'tool(«tool-not-whitelisted»"Read", {'),
    ('tool("list", {', "tool(«tool-not-whitelisted»`lst`, {"),
    (
        "const { text } = await",
        'for (const name of ["read"]) await «dynamic-tool»tool(name);\n  const { text } = await',
    ),
    # promises nobody awaits
    ("const { entries } = await tool(", "const { entries } = «floating-door»tool("),
    ('await tool("list", { path, depth: 2 })', '«floating-door»tool("list", { path, depth: 2 }).entries'),
    ("await remember(report)", "«floating-door»remember(report)"),
    ('if (fine === "yes")', 'if («floating-door»ask("Sure?") === "yes")'),
    (
        "const earlier = await recall(path);",
        "for (const note of «floating-door»recall(path)) log(note.text), earlier.push(note);\n",
    ),
    ("await log(`", "files.forEach((file) => { «floating-door»remember(file.path) });\n  await log(`"),
    ("await log(`", "files.forEach((file) => { «syntax»await remember(file.path) });\n  await log(`"),
    (
        "async function summarise(path) {\n  const { text } = ",
        "function summarise(path) {\n  const { text } = «syntax»",
    ),
    # options
    ("{ schema: SUMMARY }", "{ «unknown-option»shema: SUMMARY }"),
    ("{ schema: SUMMARY }", "«unknown-option»SUMMARY"),
    ('{ effort: "low" }', '{ effort: "low", «unknown-option»temperature: 0 }'),
    ('{ options: ["yes", "no"]', '{ «unknown-option»choices: ["yes", "no"]'),
    # other worlds
    ("// Summarises", '«module-syntax»import { readFile } from "fs";\n// Summarises'),
    ("// Summarises", 'const fs = «unavailable-global»require("fs");\n// Summarises'),
    ("async function run(", "«module-syntax»export async function run("),
    ("summary };\n}\n", "summary };\n}\n«unavailable-global»module.exports = { run };\n"),
    ("const { text } =", "await «unavailable-global»fetch(path);\n  const { text } ="),
    ("const earlier", "await new Promise((done) => «unavailable-global»setTimeout(done, 1000));\n  const earlier"),
    ("most ?? 20", "most ?? «unavailable-global»process.env.MOST"),
    ("return { report };", "«unavailable-global»print(report);\n  return { report };"),
    ("return { report };", "return { report: «dynamic-code»eval(report) };"),
    # names
    ("files.length} files", "«undeclared»fils.length} files"),
    ("await ask(", "await «undeclared»aks("),
    ("slice(0, most", "slice(0, «undeclared»inputs.most"),
    ("const SUMMARY = {", "const «door-overwritten»log = console.log;\nconst SUMMARY = {"),
    ("const SUMMARY = {", "«door-overwritten»globalThis.ask = () => true;\nconst SUMMARY = {"),
    ("files.map(async (file) => {", "files.map(async (file, «door-shadowed»ai) => {"),
    ("const report = await ai(", "const «syntax»files = 1;\n  const report = await ai("),
    # syntax
    ("{ path, depth: 2 });", "{ path «syntax»depth: 2 });"),
    ('"Is this fine?", { options: ["yes"', '"Is this fine?, { options: ["«syntax»yes"'),
    ("slice(0, most ?? 20);", "slice(0, most ?? 20«syntax»;"),
    ("async function run({ path, most })", "async function run({ path, most }«syntax»: Input)"),
    ("const earlier =", "if (path = «syntax») return;\n  const earlier ="),
    ("const earlier", "const odd = «syntax»/[b-a]/.test(path);\n  const earlier"),
    ("// Summarises", "«syntax»```js\n// Summarises"),
    ("// Summarises", "«syntax»# Summarises"),
    ("const SUMMARY = {", "const SUMMARY = «syntax»“object”;\nconst other = {"),
    ("most ?? 20", "most ?? 20 «syntax»|| 10"),
    ("most ?? 20", "most ?? «unsafe-integer»9007199254740993"),
    # the entry
    ("async function run(", "async function* «entry-kind»run("),
    ("const SUMMARY = {", "export default «entry-kind»class Job {}\nconst SUMMARY = {"),
    ("const SUMMARY = {", "«entry-kind»export default (input) => input;\nconst SUMMARY = {"),
    ("const SUMMARY = {", "export default «entry-kind»{ run };\nconst SUMMARY = {"),
]

# In the sync program.
IN_SYNC: list[tuple[str, str]] = [
    ('= ai("summarise", lines.join("\\n"));', '= «door-then»ai("summarise", "").then((answer) => answer.text);'),
    ("const { text, truncated } = ", "const { text, truncated } = «syntax»await "),
    ("function run(input) {", "«no-value»function main(input) {"),
    ("return { report: all };\n}\n", "return { report: all }«syntax»;\n"),
    (
        "function run(input) {",
        "const «entry-opaque»run = wrap(main);\nfunction wrap(f) { return f }\nfunction main(input) {",
    ),
    ("const lines = [];", "const lines = «undeclared»array();"),
    ("  if (truncated) continue;", "  if (truncated) «undeclared»contine;"),
    ("  if (truncated) continue;", "  entries.forEach((other) => { if (truncated) continue«syntax»; });"),
]

IN_MANIFEST: list[tuple[str, str]] = [
    ('"report",\n  "purpose"', '«manifest-name»"Report",\n  "purpose"'),
    ('"Summarise the files of a folder."', '«manifest-purpose»"Summarise.\\nAll of it."'),
    ('"input": {', '«manifest-unknown-key»"inputs": { },\n  "input": {'),
    ('"whitelist": ["list", "read"],', '"whitelist": ["list", "read", «manifest-whitelist»" "],'),
    ('"whitelist": ["list", "read"],', '"whitelist": ["list", "read", «manifest-whitelist»"read"],'),
    ('"whitelist": ["list", "read"],', '"whitelist": ["list", "read", «unused-whitelist»"search"],'),
    ('"whitelist": ["list", "read"],', '"whitelist": «manifest-type»"list, read",'),
    ('"deadline_floor": "5m"', '"deadline_floor": «manifest-deadline»"5 minutes"'),
    ('"deadline_floor": "5m"', '"deadline_floor": «manifest-deadline»"5"'),
    ('{ "steps": 200,', '{ "steps": «manifest-fuel»-1,'),
    ('{ "steps": 200,', '{ "steps": «fuel-clamped»2000000,'),
    ('"memory": "64MiB"', '"memory": «manifest-fuel»"64 megabytes"'),
    ('"fuel": {', '"engine": «manifest-engine»"node",\n  "fuel": {'),
    ('{ "type": "integer", "minimum": 1 }', '{ "type": «manifest-schema»"int" }'),
    ('{ "type": "integer", "minimum": 1 }', '{ "$ref": «manifest-schema»"#/$defs/count" }'),
    ('"default": "."', '"default": «manifest-default»1'),
    ('"kind": "judgement"', '"kind": «manifest-guard»"question"'),
    ('{ "kind": "tool", "tool": "list", "because"', '«manifest-guard»{ "kind": "tool", "because"'),
    (
        '"question": "Is this about files?" }',
        '"question": "Is it?" },\n    «two-judgements»{ "kind": "judgement", "question": "Really?" }',
    ),
    ('"guards": [', '"guards": [\n    «unreachable-guard»{ "kind": "field", "field": "tone", "pattern": "rude" },'),
    ('"name": "report",', '"name": "report",\n  «manifest-duplicate-key»"name": "reports",'),
    ('"5m",\n  "fuel"', '"5m"\n  «manifest-json»"fuel"'),
]

IN_EVAL: list[tuple[str, str]] = [
    ('"expect": {', '«eval-invalid»"expects": {},\n  "expect": {'),
    ('"status": "finished"', '"status": «eval-invalid»"done"'),
    ('{ "door": "ask", "text": "no" }', '«eval-invalid»{ "door": "asks", "text": "no" }'),
    ('{ "door": "ask", "text": "no" }', '«eval-invalid»{ "door": "ask", "answer": "no" }'),
    ('"subset": {', '«eval-invalid»"subsets": {'),
    ('"look": {', '"look": «eval-invalid»["list"], "fuel": {'),
]


def with_mistake(base: str, old: str, new: str) -> tuple[str, str, tuple[int, int]]:
    """The text with the mistake in it, and the code and place of the finding."""
    assert base.count(old) >= 1, old
    marked = base.replace(old, new, 1)
    (mark,) = re.finditer("«([a-z0-9-]+)»", marked)
    before = marked[: mark.start()]
    place = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    return before + marked[mark.end() :], mark[1], place


async def found(path: Path, files: dict[str, str]) -> dict[tuple[str, str], list[tuple[int | None, int | None]]]:
    """What `check` finds: file and code to places."""
    texts = FILES | files | {f"prompts/{name}.md": text for name, text in PROMPTS.items()}
    for name, text in texts.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    _, diagnostics = await check_bundle(path)
    places: dict[tuple[str, str], list[tuple[int | None, int | None]]] = {}
    for one in diagnostics:
        assert "Traceback" not in str(one) and "\n" not in str(one)
        places.setdefault((one.file, one.code), []).append((one.line, one.column))
    return places


SEEDED = [
    *(("program.js", ASYNC, *mistake) for mistake in IN_ASYNC),
    *(("program.js", SYNC, *mistake) for mistake in IN_SYNC),
    *(("manifest.json", MANIFEST, *mistake) for mistake in IN_MANIFEST),
    *(("evals/one.json", EVAL, *mistake) for mistake in IN_EVAL),
]


@pytest.mark.parametrize(("file", "base", "old", "new"), SEEDED, ids=lambda value: None)
async def test_a_mistake_is_found_where_it_is(file: str, base: str, old: str, new: str, tmp_path: Path) -> None:
    """JSR-035 with the code of the rule, and the line and column of the mistake"""
    text, code, place = with_mistake(base, old, new)
    assert place in (await found(tmp_path, {file: text})).get((file, code), ()), await found(tmp_path, {file: text})


@pytest.mark.parametrize("program", [ASYNC, SYNC], ids=["async", "sync"])
async def test_without_a_mistake_nothing_is_found(program: str, tmp_path: Path) -> None:
    """JSR-035 so all that is found is the mistake"""
    assert await found(tmp_path, {"program.js": program}) == {}


def test_there_are_many() -> None:
    assert len(SEEDED) > 80 and len({new for *_, new in SEEDED}) == len(SEEDED)
