"""`jsrun map`: one bundle over the lines of a file."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jsrun._map_workers import env_maker
from jsrun.cli.finding import load_bundle
from jsrun.cli.output import Refusal, print_json
from jsrun.errors import JsrunError
from jsrun.mapping import AHEAD, MapLine, Processes, map_runs, read_inputs

_DASK = "dask:"
_READ_BYTES = 1024 * 1024
# In the order in which they are told; all but the first are not finished.
_KINDS = ("finished", "fell_back", "incomplete", "error")


def command(
    bundle: Annotated[
        str, typer.Argument(metavar="NAME|PATH", help="A name out of the stores, or the bundle's directory.")
    ],
    inputs: Annotated[Path, typer.Argument(metavar="IN.jsonl", help="The inputs, one JSON value a line.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT.jsonl", help="Where each result is appended as it ends.")
    ],
    env: Annotated[str, typer.Option("--env", metavar="MODULE:FACTORY", help="A function that makes a run's Env.")],
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Runs at once; one for each core if not given.")
    ] = None,
    executor: Annotated[
        str, typer.Option("--executor", metavar="processes|threads|dask:ADDRESS", help="What does the work.")
    ] = "processes",
    retry: Annotated[bool, typer.Option("--retry", help="Run those again that are there and not finished.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON document.")] = False,
) -> int:
    """Run a bundle once for each line of a file. Start it again to go on where it was stopped.

    Exit 0 all finished, 1 it could not be done, 2 some are not finished.
    """
    loaded, _place = load_bundle(bundle)
    try:
        env_maker(env)  # here it can be told before anything runs; workers import it again
        with inputs.open("rb"):
            pass
    except JsrunError as error:
        raise Refusal(f"--env: {error}", code="usage") from None
    except OSError as error:
        raise Refusal(f'The inputs "{inputs}" cannot be read: {error.strerror}.', code="input") from None
    counts: Counter[str] = Counter()
    kept = 0
    interrupted = False
    try:
        with _executor(executor, workers) as (pool, ahead):
            lines = map_runs(
                loaded, read_inputs(inputs), env, pool, output=output, retry=retry, workspace=Path(), ahead=ahead
            )
            with contextlib.closing(lines), _progress(inputs, quiet=quiet or as_json) as show:
                for line in lines:
                    counts[_kind(line)] += 1
                    kept += line.kept
                    show(counts)
    except KeyboardInterrupt:
        interrupted = True
    except SystemExit:
        raise Refusal("A host function ended its process. What had ended is kept.") from None
    except JsrunError as error:
        raise Refusal.of(error) from None
    _tell(output, counts, kept, interrupted=interrupted, as_json=as_json)
    return 2 if interrupted or counts.total() > counts["finished"] else 0


def _kind(line: MapLine) -> str:
    return "error" if line.result is None else line.result.status


@contextlib.contextmanager
def _executor(name: str, workers: int | None) -> Iterator[tuple[Executor, int]]:
    """The executor of this name, and how many inputs it may have. Stops at once on any error."""
    count = workers or _cores()
    if name == "processes":
        processes = Processes(count)
        try:
            yield processes, max(AHEAD, 2 * count)
        except BaseException:
            processes.stop()
            raise
        processes.shutdown()
    elif name == "threads":
        with ThreadPoolExecutor(count, thread_name_prefix="jsrun map") as threads:
            yield threads, max(AHEAD, 2 * count)
    elif name.startswith(_DASK) and len(name) > len(_DASK):
        if workers is not None:
            raise Refusal("--workers: the number of workers of a cluster is the cluster's.", code="usage")
        with _dask(name.removeprefix(_DASK)) as found:
            yield found
    else:
        raise Refusal(f'--executor "{name}": write processes, threads or dask:ADDRESS.', code="usage")


@contextlib.contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        import distributed  # an extra
    except ImportError:
        hint = 'Install it: pip install "subharness[dask]".'
        raise Refusal(f"--executor: Dask is not installed. {hint}", code="missing-extra") from None
    try:
        client: Any = distributed.Client(address, set_as_default=False)
    except Exception as error:
        raise Refusal(f'--executor: there is no Dask scheduler at "{address}": {error}', code="not-found") from None
    with client:
        # Runs are not pure: two equal inputs are two runs.
        executor: Executor = client.get_executor(pure=False)
        yield executor, max(AHEAD, 2 * sum(client.ncores().values()))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _progress(inputs: Path, *, quiet: bool) -> Iterator[Callable[[Counter[str]], None]]:
    """A bar on a terminal; anywhere else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda counts: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=_lines(inputs))
        yield lambda counts: bar.update(task, completed=counts.total(), description=_summary(counts))


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        count = sum(block.count(b"\n") for block in iter(lambda: file.read(_READ_BYTES), b""))
        size = file.tell()
        file.seek(max(0, size - 1))
        return count + (file.read(1) not in (b"\n", b""))


def _summary(counts: Counter[str]) -> str:
    parts = [f"{counts[kind]} {kind.replace('_', ' ')}" for kind in _KINDS if counts[kind]]
    return ", ".join(parts) or "nothing"


def _tell(output: Path, counts: Counter[str], kept: int, *, interrupted: bool, as_json: bool) -> None:
    if as_json:
        numbers = {kind: counts[kind] for kind in _KINDS}
        print_json(
            {"output": str(output), "inputs": counts.total(), **numbers, "kept": kept, "interrupted": interrupted}
        )
        return
    there = f"; {kept} of them had been there" if kept else ""
    stopped = " Interrupted; start again to go on." if interrupted else ""
    print(f"{output}: {_summary(counts)}{there}.{stopped}")
