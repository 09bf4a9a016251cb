"""`jsrun types`: what TypeScript should know about a program, as text or as the file program.d.ts."""

from pathlib import Path
from typing import Annotated

import typer

from jsrun.cli.finding import load_bundle
from jsrun.cli.output import Refusal, print_json, print_problem
from jsrun.cli.run import load_belt
from jsrun.typings import typings


def command(
    bundle: Annotated[
        str, typer.Argument(metavar="NAME|PATH", help="A name out of the stores, or the bundle's directory.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write them, such as PATH/program.d.ts."),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="MODULE:FUNCTION", help="A Python function as a tool; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Print the types of a program's input, output, prompts, tools and doors, or write them to a file."""
    loaded, place = load_bundle(bundle)
    text = typings(loaded, load_belt(Path(), tools or []).specs())
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise Refusal(f'"{output}" cannot be written: {error.strerror}.') from None
    if as_json:
        print_json({"path": str(place.path), "file": None if output is None else str(output), "text": text})
    elif output is None:
        print(text, end="")
    else:
        print_problem(f"wrote {output}")
    return 0
