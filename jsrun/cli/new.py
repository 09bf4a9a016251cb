"""`jsrun new`: a bundle that checks, tests and runs at once."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from jsrun.cli.output import Refusal, print_json
from jsrun.errors import BundleError

_SYNC = """\
// The doors: ai(prompt, input) tool(name, args) ask(question) remember(note) recall(query) log(status).
// In a plain program like this one each gives its value directly.

/** @type {Run} */
function run({ path }) {
  const { entries } = tool("list", { path });
  const files = entries.filter((entry) => entry.kind === "file").map((entry) => entry.path);
  log(`found ${files.length} files`);
  return { files };
}
"""

_ASYNC = """\
// The doors: ai(prompt, input) tool(name, args) ask(question) remember(note) recall(query) log(status).
// In an async program like this one each gives a promise, and Promise.all makes the calls at the same time.

/** @type {Run} */
async function run({ path }) {
  const { entries } = await tool("list", { path });
  const names = entries.filter((entry) => entry.kind === "file").map((entry) => entry.path);
  const files = await Promise.all(
    names.map(async (name) => ({ path: name, lines: (await tool("read", { path: name })).total_lines })),
  );
  await log(`counted the lines of ${files.length} files`);
  return { files };
}
"""

_ENTRIES = {
    "entries": [{"path": "a.txt", "kind": "file", "size": 4}, {"path": "b", "kind": "directory", "size": 0}],
    "truncated": False,
}
_TEXT = {"path": "a.txt", "text": "one\ntwo\n", "start": 1, "lines": 2, "total_lines": 2, "truncated": False}


def command(
    name: Annotated[str, typer.Argument(help="Name of the bundle, also of its directory.")],
    is_async: Annotated[bool, typer.Option("--async", help="An async program, which can call in parallel.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Make a bundle in a new directory. Nothing that exists is ever overwritten."""
    path = Path(name)
    create(path, is_async=is_async)
    if as_json:
        print_json({"path": str(path), "files": sorted(files(path.name, is_async=is_async))})
    else:
        print(f"made {path}")
        print(f"  check it:  jsrun check {path}")
        print(f"  test it:   jsrun test {path}")
        print(f'  run it:    jsrun run {path} --input \'{{"path": "."}}\'')
    return 0


def create(path: Path, *, is_async: bool) -> None:
    """Write the bundle to `path` in one step. Refusal if the path exists or its last part cannot be a name."""
    from jsrun.bundle import Bundle

    texts = files(path.name, is_async=is_async)
    if path.exists() or path.is_symlink():
        raise Refusal(f'"{path}" is there already. Choose another name, or remove it first.', code="exists")
    if not path.parent.is_dir():
        raise Refusal(f'There is no directory "{path.parent}" to make a bundle in.', code="not-found")
    try:
        Bundle.from_files(texts)
    except BundleError as error:
        problem = error.diagnostics[0]
        raise Refusal(f"{problem.message} {problem.hint}", code=problem.code) from None
    try:
        staged = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            for name, text in texts.items():
                target = staged / name
                target.parent.mkdir(exist_ok=True)
                target.write_text(text, encoding="utf-8", newline="\n")
            staged.chmod(0o755)
            staged.rename(path)
        finally:
            if staged.exists():
                shutil.rmtree(staged)
    except OSError as error:
        raise Refusal(f'"{path}" cannot be made: {error.strerror}.') from None


def files(name: str, *, is_async: bool) -> dict[str, str]:
    """The files of a new bundle by their path in it."""
    result = {"path": {"type": "string"}, "lines": {"type": "integer"}} if is_async else None
    item = {"type": "object", "properties": result, "required": ["path", "lines"]} if is_async else {"type": "string"}
    manifest = {
        "name": name,
        "purpose": "Count the lines of the files in a folder." if is_async else "List the files in a folder.",
        "input": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "The folder to look at.", "default": "."}},
            "additionalProperties": False,
        },
        "output": {
            "type": "object",
            "properties": {"files": {"type": "array", "items": item}},
            "required": ["files"],
        },
        "whitelist": ["list", "read"] if is_async else ["list"],
    }
    doors: list[dict[str, object]] = [
        {"door": "tool", "ref": "list", "input": {"path": "docs"}, "output": _ENTRIES},
        {"door": "log", "times": "any"},
    ]
    if is_async:
        doors.insert(1, {"door": "tool", "ref": "read", "input": {"path": "a.txt"}, "output": _TEXT})
    case = {
        "name": "files are reported, folders are not",
        "input": {"path": "docs"},
        "doors": doors,
        "expect": {
            "status": "finished",
            "output": {"exact": {"files": [{"path": "a.txt", "lines": 2}] if is_async else ["a.txt"]}},
        },
    }
    return {
        "manifest.json": json.dumps(manifest, indent=2) + "\n",
        "program.js": _ASYNC if is_async else _SYNC,
        "evals/files.json": json.dumps(case, indent=2) + "\n",
    }
