"""Compiled graphs on disk: a process that captures a graph it has seen skips tracing, lowering and the C compiler.

An entry has two parts: what is needed to run the graph, and (when somebody watched the compile) what the record showed of it.
Both are JSON. The libraries are entries of their own, found by the C source that the first part holds, so an evicted library is built
again from there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from torch.fx import GraphModule

from dynamo import aot, decisions
from dynamo.aot.facts import Facts
from dynamo.trace import codec as trace_codec
from dynamo.trace import current, emit, is_watched, stage
from dynamo.trace.events import CacheLooked, Decided, Event, Note, StageTimed
from inductor.errors import BuildError
from inductor.runtime import cache, codec, devices, graph_key
from inductor.runtime.graph_key import NotKept
from inductor.runtime.pending import Pending

NOT_KEPT = "DI010"


@dataclass(frozen=True)
class DiskCache:
    """The cache of the backend: `options` are the backend's."""

    options: dict[str, Any]

    def look_up(self, gm: GraphModule, inputs: Sequence[Any], compile_id: str) -> Question:
        with stage("cache", compile_id):
            return Question(gm, inputs, self.options, compile_id)


class Question:
    """One graph that the cache was asked for. `found` is set after a hit."""

    def __init__(self, gm: GraphModule, inputs: Sequence[Any], options: dict[str, Any], compile_id: str) -> None:
        self.gm, self.compile_id = gm, compile_id
        self.found: tuple[Facts, aot.Compiled, aot.Compiled | None] | None = None
        self.key = self.provenance = ""
        reason = graph_key.bypass()
        if not reason:
            try:
                self.key = graph_key.key_of(gm, inputs, options)
            except NotKept as why:
                reason = str(why)
        if not self.key:
            emit(CacheLooked(compile_id, "bypass", "", reason))
            return
        self.watched = is_watched()
        if self.watched:
            self.provenance = graph_key.provenance_of(gm)
        reason = self.read()
        emit(CacheLooked(compile_id, "miss" if reason else "hit", self.key, reason))
        self.store = current()
        self.mark = len(self.store.events)
        self.counted = decisions.counted()

    def read(self) -> str:
        """Take the answer from the disk. Returns why there is none."""
        try:
            parts = cache.find_parts(cache.graph_path(self.key))
            if parts is None:
                return "not seen before"
            plan, record = parts
            entry = json.loads(plan)
            if self.watched and entry["provenance"] != self.provenance:
                return "made without a record" if not entry["provenance"] else "made for other lines of source"
            facts = codec.decode(entry["facts"])
            paths = graph_key.held_paths(self.gm)
            facts = replace(facts, held=tuple(paths[int(number)] for number in facts.held))
            recipes = [codec.decode(row) for row in entry["recipes"]]
            started = [self.start(recipe, source) for recipe, source in zip(recipes, entry["sources"], strict=True)]
            programs = [p.settle() for p in started]
        except cache.Damaged as error:
            return f"the entry is damaged: {error}"
        except BuildError as error:
            return f"its kernels could not be built: {str(error).splitlines()[0]}"
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            return f"the entry cannot be read: {type(error).__name__}: {error}"
        self.found = facts, programs[0], programs[1] if len(programs) > 1 else None
        first = decisions.pass_over(entry["decisions"])
        if self.watched:
            self.replay(record, entry["compile_id"], first)
        cache.count_hit()
        return ""

    def start(self, recipe: Any, source: str) -> Pending:
        """The host program. A library that is gone is built again, now: there is no graph to fall back on."""
        return Pending(recipe, source, devices.runtime(recipe.device).start(source) if recipe.kernels else None, self.compile_id, _raise)

    # keeping

    def keep(self, facts: Facts, forward: aot.Compiled, backward: aot.Compiled | None) -> None:
        """Write the entry. Errors of the disk are nobody's business; a graph that has no plain form gets a note."""
        if not self.key:
            return
        programs = [p for p in (forward, backward) if p is not None]
        try:
            if not all(isinstance(p, Pending) for p in programs):
                raise NotKept("a part of it runs uncompiled")
            entry = {
                "facts": codec.encode(replace(facts, held=self.numbers(facts))),
                "recipes": [codec.encode(p.recipe) for p in programs if isinstance(p, Pending)],
                "sources": [p.source for p in programs if isinstance(p, Pending)],
                "decisions": dict(Counter(decisions.counted()) - Counter(self.counted)),
                "provenance": self.provenance,
                "compile_id": self.compile_id,
            }
        except (NotKept, codec.NoPlainForm) as why:
            emit(Note(NOT_KEPT, f"graph {self.compile_id} is not kept in the cache: {why}", "info"))
            return
        record = list(self.recorded()) if self.watched else []
        parts = [json.dumps(part, separators=(",", ":")).encode("utf-8", "surrogatepass") for part in (entry, record)]
        cache.put_parts(cache.graph_path(self.key), parts)

    def numbers(self, facts: Facts) -> tuple[str, ...]:
        """The held tensors by number: names of attributes are no part of the key."""
        paths = graph_key.held_paths(self.gm)
        try:
            return tuple(str(paths.index(path)) for path in facts.held)
        except ValueError:
            raise NotKept("it holds a tensor that was found while tracing") from None

    # the record

    def recorded(self) -> Iterator[Any]:
        """What this compile has put into the record since the cache was asked."""
        for event in self.store.events[self.mark :]:
            if getattr(event, "compile_id", None) == self.compile_id and not isinstance(event, StageTimed):
                yield trace_codec.encode(event)

    def replay(self, record: bytes, old_id: str, first: int) -> None:
        """Put what the first compile recorded into this record, under this compile's id and decision numbers."""
        base = 0
        for row in json.loads(record):
            event = renamed(trace_codec.decode(row), old_id, self.compile_id)
            if isinstance(event, Decided) and event.number:
                base = base or event.number
                event = replace(event, number=event.number - base + first)
            emit(event)


def renamed(event: Event, old: str, new: str) -> Event:
    """The event with another compile id, at the start of every name that is made from it."""
    changes: dict[str, Any] = {"t": -1.0}
    for f in fields(event):
        value = getattr(event, f.name)
        if isinstance(value, str) and f.name in ("compile_id", "graph_id", "name") and (value == old or value.startswith(f"{old}.")):
            changes[f.name] = new + value.removeprefix(old)
    return replace(event, **changes)


def _raise(error: BuildError) -> Callable[..., Any]:
    raise error
