"""The key of a captured graph in the cache: everything that decides what the compiler makes of it.

Graph (operators, arguments, constants; names do not count), the layout of every tensor and which of them share memory, global
modes, configuration, and the versions of torch, Python, this compiler, the C compiler and the CPU. What can't be told by its
content (functions and classes of the program, tensor subclasses) is refused.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

import dynamo
import inductor
from dynamo import config
from dynamo.aot.facts import attribute, paths_of
from dynamo.decisions import is_limited
from dynamo.faults import is_planted
from dynamo.surroundings.modes import MODES
from inductor.runtime import cache, devices

Plain = Any  # None, bool, int, float, complex, str, bytes and tuples of them

# Options that change when or how often is compiled, or what is said about it, but not what comes out.
WITHOUT_EFFECT = frozenset(
    {
        "cache", "graph_cache", "cache_dir", "cache_limit", "force_disable_caches", "recompile_limit", "suppress_errors", "disable",
        "debug_function", "verbose", "error_on_break", "repro_after", "repro_level", "repro_dir", "compile_debug", "debug_dir",
        "inductor_trace", "logs", "keep_freed_memory",
        "check_surroundings", "guard_times", "replay_record_enabled", "replay_record_always", "replay_record_dir",
    }
)  # fmt: skip
OWN_OPERATORS = frozenset({"aten", "prim", "prims", "quantized", "mkldnn"})
TRUSTED = frozenset({"torch", "_operator", "operator", "math", "builtins", "dynamo"})
TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class NotKept(Exception):
    """This graph can't be kept; the text says why."""


def bypass() -> str:
    """Why the cache must not be asked now; '' when it may."""
    if is_limited():
        return "decisions are limited or counted"
    if is_planted():
        return "a fault is planted"
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return "a torch mode of the program is active"
    if torch._C._functorch.maybe_current_level() is not None:
        return "inside a functorch transform"
    if not config.graph_cache:
        return "switched off by configuration"
    return cache.refusal()


def key_of(gm: GraphModule, inputs: Sequence[Any], options: dict[str, Any]) -> str:
    """The key. Raises NotKept."""
    layouts = Layouts()
    graph = tuple(graph_rows(gm, layouts))
    given = tuple(layouts.describe(v) if isinstance(v, torch.Tensor) else plain(v, "an input") for v in inputs)
    parts = (graph, given, layouts.shared(), modes(), configuration(), plain(options, "an option"))
    texts = [repr(part) for part in parts]
    return cache.key_of(*texts, *versions(texts[:2]))


def provenance_of(gm: GraphModule) -> str:
    """Names and user lines, which the record shows and the compiler ignores."""
    rows = [(n.op, n.name, str(n.target) if n.op in ("placeholder", "get_attr") else "", n.meta.get("source")) for n in gm.graph.nodes]
    inner = [provenance_of(m) for m in graphs_in(gm)]
    return cache.key_of(repr(rows), *inner)


def graphs_in(gm: GraphModule) -> Iterator[GraphModule]:
    """Graphs that a graph reads as attributes: bodies of regions."""
    for node in gm.graph.nodes:
        if node.op == "get_attr" and isinstance(value := attribute(gm, str(node.target)), GraphModule):
            yield value


# graph


def graph_rows(gm: GraphModule, layouts: Layouts) -> Iterator[Plain]:
    """One row per node; nodes are their numbers, attributes what they hold."""
    numbers: dict[Node, int] = {}
    for number, node in enumerate(gm.graph.nodes):
        numbers[node] = number
        where = f"node {node.name}"
        if node.op == "placeholder":
            yield ("input",)
        elif node.op == "get_attr":
            value = attribute(gm, str(node.target))
            if isinstance(value, torch.Tensor):
                yield ("held", layouts.describe(value))
            elif isinstance(value, GraphModule):
                yield ("graph", tuple(graph_rows(value, layouts)))
            else:
                yield ("constant", plain(value, where))
        elif node.op == "call_module":
            raise NotKept(f"{where} calls a module")
        else:
            target = node.target if isinstance(node.target, str) else function_name(node.target)
            yield (node.op, target, plain(node.args, where, numbers), plain(dict(node.kwargs), where, numbers))


def plain(value: Any, where: str, numbers: dict[Node, int] | None = None) -> Plain:
    """A value as plain data that is equal only for equal values. Raises NotKept."""
    if isinstance(value, Node):
        return ("node", (numbers or {})[value])
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return (type(value).__name__, value)
    if isinstance(value, (tuple, list)):
        return ("list" if isinstance(value, list) else "tuple", tuple(plain(v, where, numbers) for v in value))
    if isinstance(value, dict):
        return ("dict", tuple((plain(k, where, numbers), plain(v, where, numbers)) for k, v in value.items()))
    if isinstance(value, slice):
        return ("slice", tuple(plain(v, where, numbers) for v in (value.start, value.stop, value.step)))
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return ("torch", str(value))
    if value is Ellipsis:
        return ("...",)
    if callable(value):
        return ("function", function_name(value))
    raise NotKept(f"{where} has a {type(value).__module__}.{type(value).__qualname__}, which has no plain form")


def function_name(target: Any) -> str:
    """The name that means this function in every process. Raises NotKept for functions of the program."""
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        name = str(target)
        if name.partition(".")[0] not in OWN_OPERATORS:
            raise NotKept(f"operator {name} is the program's own")
        return name
    owner = getattr(target, "__objclass__", None)
    module = owner.__module__ if owner is not None else getattr(target, "__module__", None)
    names = (getattr(target, "__qualname__", ""), getattr(target, "__name__", ""))
    if isinstance(module, str) and module.partition(".")[0] in TRUSTED and not hasattr(target, "function"):
        place = owner if owner is not None else sys.modules.get(module)
        for name in names:
            if name and means(place, name, target):
                return f"{module}.{owner.__qualname__ + '.' if owner is not None else ''}{name}"
    raise NotKept(f"function {names[0] or target!r} is the program's own")


def means(place: Any, name: str, target: Any) -> bool:
    """Whether the name leads to the function, and the function is not one that the program put in its place."""
    code = getattr(target, "__code__", None)
    if code is not None and not code.co_filename.startswith(_HOMES):
        return False
    try:
        return attribute(place, name) is target
    except AttributeError:
        return False


_HOMES = tuple(str(Path(m.__file__ or "").parent) + os.sep for m in (torch, dynamo))


class Layouts:
    """Tensors by layout and by identity: the same object, or the same memory, gets the same number."""

    def __init__(self) -> None:
        self.objects: dict[int, int] = {}
        self.storages: dict[int, list[Any]] = {}
        self.kept: list[Any] = []

    def describe(self, t: torch.Tensor) -> Plain:
        if type(t) not in TENSORS:
            raise NotKept(f"tensor subclass {type(t).__module__}.{type(t).__qualname__}")
        if t.layout is not torch.strided or t.is_quantized or t.is_nested:
            raise NotKept("a tensor with an unusual layout")
        storage = t.untyped_storage()
        self.kept.append(storage)
        users = self.storages.setdefault(storage._cdata, [len(self.storages), storage.nbytes(), 0])
        number = self.objects.get(id(t))
        if number is None:
            number = self.objects[id(t)] = len(self.objects)
            users[2] += 1
        flags = (t.requires_grad, t.is_leaf, t.is_conj(), t.is_neg(), t.is_inference())
        layout = (str(t.dtype), str(t.device), tuple(t.shape), t.stride(), t.storage_offset())
        return (type(t).__name__, number, users[0], flags, layout)

    def shared(self) -> Plain:
        """Sizes of memory that several tensors show: a graph that writes to it takes it whole."""
        return tuple((number, size) for number, size, users in self.storages.values() if users > 1)


# the rest of the world


def modes() -> Plain:
    """Global state that tracing reads."""
    return (
        tuple(str(mode.read()) for mode in MODES if not mode.is_depth and mode.name != "get_num_threads"),
        torch.is_inference_mode_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]  # a property of the module's class
        torch.backends.mkldnn.deterministic,
        (torch.backends.opt_einsum.enabled, torch.backends.opt_einsum.strategy),
        torch.is_anomaly_enabled(),
    )


def configuration() -> Plain:
    return tuple((o.name, repr(config.get(o.name))) for o in config.OPTIONS if o.name not in WITHOUT_EFFECT)


def versions(graph: Sequence[str]) -> tuple[str, ...]:
    """What compiles, and for what: for processors, and for the devices that the text of a graph and its inputs names."""
    named = [d for d in devices.DEVICES if d == "cpu" or any(d in text for text in graph)]
    return (*fixed_versions(), *(text for device in named for text in devices.runtime(device).versions()))


@functools.cache
def fixed_versions() -> tuple[str, ...]:
    return (torch.__version__, torch.version.git_version or "", sys.version, own_source())


@functools.cache
def own_source() -> str:
    """Changes when the code between a captured graph and its kernels does: by size and time of its files, which cost 1 ms to ask."""
    front, back = Path(dynamo.__file__ or "").parent, Path(inductor.__file__ or "").parent
    try:
        below = [file for folder in ("aot", "fake", "graph", "ops", "surroundings") for file in _files(str(front / folder))]
        files = [*_files(str(front)), *below, *_files(str(back), deep=True)]
    except OSError:
        raise NotKept("the compiler's own files cannot be read") from None
    return cache.key_of(dynamo.__version__, repr(files))


def _files(folder: str, deep: bool = False) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.endswith((".py", ".h", ".so", ".pyd")):
                stat = entry.stat()
                found.append((entry.name, stat.st_size, stat.st_mtime_ns))
            elif deep and entry.is_dir() and entry.name != "__pycache__":
                found += _files(entry.path, deep)
    return found


def held_paths(gm: GraphModule) -> list[str]:
    """Paths of the tensors a graph holds, in an order that its key fixes."""
    return list(dict.fromkeys(paths_of(gm).values()))
