"""Registry: one set of names out of several places, and running a subharness by its name."""

import os
from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol, Self, Unpack

from jsrun._text import quoted
from jsrun._threads import in_thread
from jsrun.bundle import Bundle
from jsrun.diagnostics import nearest
from jsrun.env import Env
from jsrun.errors import JsrunError, StoreError, UnknownSubharness
from jsrun.fuel import CEILING, Fuel, resolve
from jsrun.journal import Journal, storable
from jsrun.long_way import Generalist, LongWay, copy_input, take_long_way
from jsrun.manifest import Manifest
from jsrun.memory import now
from jsrun.result import RunResult
from jsrun.runner import PARALLEL, Runner, RunOptions
from jsrun.store import PROJECT, RunNote, Store, home, version_of
from jsrun.store_records import WHY_CHARS
from ptc.runtime import Runtime

__all__ = ["Generalist", "Layer", "LongWay", "Registry", "Source"]


class Layer(IntEnum):
    """Where subharnesses come from, in lookup order: the first layer that has a name wins."""

    BUILT_IN = 1
    PACKED = 2
    PROJECT = 3
    HOME = 4
    PAGES = 5

    @property
    def provenance(self) -> str:
        """What the registry says of manifests of this layer, whatever they say of themselves."""
        return {Layer.BUILT_IN: "built-in", Layer.PROJECT: "from this project"}.get(self, "yours")


class Source(Protocol):
    """Somewhere subharnesses are: a Store, or anything else that gives bundles by name."""

    def names(self) -> Iterable[str]:
        """The names it has."""
        ...

    def load(self, name: str) -> Bundle:
        """The newest bundle of a name. BundleError if it is broken."""
        ...


class Registry:
    """Names out of the layers that are in use; sources are asked at every lookup.

    runtime: where programs of its engine run; without one every run starts and ends an engine of its own.
    journal, ceiling, parallel, show_errors: as those of Runner.
    """

    def __init__(
        self,
        *,
        runtime: Runtime | None = None,
        journal: Journal | None = None,
        ceiling: Fuel = CEILING,
        parallel: int = PARALLEL,
        show_errors: bool = True,
    ) -> None:
        self._runtime = runtime
        self._journal = journal
        self._ceiling = ceiling
        self._parallel = parallel
        self._show_errors = show_errors
        self._sources: dict[Layer, Source] = {}
        self._broken: tuple[str, ...] = ()
        self._unnoted: dict[str, str] = {}

    @classmethod
    def local(
        cls,
        project: str | os.PathLike[str] = PROJECT,
        *,
        runtime: Runtime | None = None,
        journal: Journal | None = None,
    ) -> Self:
        """A registry of the store of a project and that of the user."""
        registry = cls(runtime=runtime, journal=journal)
        registry.use(Layer.PROJECT, Store(project))
        registry.use(Layer.HOME, Store(home()))
        return registry

    @property
    def notices(self) -> tuple[str, ...]:
        """What the last `manifests()` left out and why, runs that could not be noted, and what the sources noticed."""
        of_sources = [notice for _layer, source in self.sources() for notice in getattr(source, "notices", ())]
        return tuple(dict.fromkeys((*self._broken, *self._unnoted.values(), *of_sources)))

    def use(self, layer: Layer, source: Source | None) -> None:
        """Take the names of a layer from `source`, instead of what it had; None changes nothing."""
        if source is not None:
            self._sources[Layer(layer)] = source

    def sources(self) -> tuple[tuple[Layer, Source], ...]:
        """The layers in use, in lookup order."""
        return tuple(sorted(self._sources.items(), key=lambda item: item[0]))

    def where(self, name: str) -> tuple[Layer, Source]:
        """The layer that has a name, and its source. UnknownSubharness, with the nearest name, if none has it."""
        known: set[str] = set()
        for layer, source in self.sources():
            names = set(source.names())
            if name in names:
                return layer, source
            known |= names
        raise UnknownSubharness(name, nearest(name, known))

    def find(self, name: str) -> Bundle:
        """The bundle of a name.

        A broken one raises its BundleError: it still wins over the layers behind it. UnknownSubharness for a name that
        nobody has.
        """
        return self.where(name)[1].load(name)

    def manifests(self) -> tuple[Manifest, ...]:
        """One manifest a name, sorted, its provenance stamped. Broken ones are left out and told in `notices`."""
        found: dict[str, Manifest] = {}
        broken: dict[str, str] = {}
        for layer, source in self.sources():
            try:
                names = sorted(source.names())
            except (JsrunError, OSError) as error:
                broken[f" {layer}"] = f"The names {layer.provenance} cannot be listed: {error}"
                continue
            for name in names:
                if name in found or name in broken:
                    continue
                try:
                    found[name] = stamped(source.load(name).manifest, layer)
                except (JsrunError, OSError) as error:
                    broken[name] = f"{quoted(name)} ({layer.provenance}) is left out: {error}"
        self._broken = tuple(broken.values())
        return tuple(found[name] for name in sorted(found))

    async def run(
        self,
        name: str,
        input: object,
        env: Env,
        *,
        generalist: Generalist | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run a subharness by its name; if it falls back and there is a generalist, that one takes the long way.

        generalist: gets the job as a LongWay, and an Env that refuses every tool off the whitelist. options: see
        `RunOptions`. A run out of a Store is noted there.
        Raises what `find` and `Runner.run` raise; none of that takes the long way.
        """
        if generalist is not None and not callable(getattr(generalist, "take", None)):
            raise TypeError("the generalist needs a method take(job, env)")
        layer, source = await in_thread(self.where, name)
        bundle = await in_thread(source.load, name)
        given = None if generalist is None else copy_input(input)
        async with self._runner(bundle) as runner:
            result = await runner.run(input, env, **options)
        if generalist is not None and result.status == "fell_back":
            manifest = stamped(bundle.manifest, layer)
            allowed = resolve(options.get("fuel"), bundle.fuel, manifest.fuel, manifest.deadline, self._ceiling)
            result = await take_long_way(bundle, manifest, given, env, generalist, result, allowed)
        if isinstance(source, Store):
            await in_thread(self._note, source, bundle, result)
        return result

    def _runner(self, bundle: Bundle) -> Runner:
        fits = self._runtime is not None and self._runtime.engine == bundle.manifest.engine
        return Runner(
            bundle,
            runtime=self._runtime if fits else None,
            journal=self._journal,
            ceiling=self._ceiling,
            parallel=self._parallel,
            show_errors=self._show_errors,
        )

    def _note(self, store: Store, bundle: Bundle, result: RunResult) -> None:
        """Note a run where its bundle is from. The run is over and stays as it is, whether or not that can be done."""
        name = bundle.manifest.name
        try:
            note_result(store, bundle, result)
        except StoreError as error:
            self._unnoted[name] = f"The last run of {quoted(name)} is not noted: {error}"
        else:
            self._unnoted.pop(name, None)


def stamped(manifest: Manifest, layer: Layer) -> Manifest:
    """The manifest with the provenance that its layer gives it."""
    fields = {name: getattr(manifest, name) for name in Manifest.model_fields}
    text = layer.provenance
    return Manifest.of_json({**manifest.to_json(), "provenance": [text]}, {**fields, "provenance": (text,)})


def note_result(store: Store, bundle: Bundle, result: RunResult) -> None:
    """Note in a store how a run of one of its bundles went. StoreError if that cannot be written."""
    number = version_of(bundle)
    if number is not None:
        why = result.sentence[:WHY_CHARS]
        note = RunNote(number, now(), result.finished(), storable(why), result.spend.cost_usd)
        store.note_run(bundle.manifest.name, note)
