"""Options: one row per option. `dynamo.config.NAME` reads and sets; `dynamo-debug doctor` prints the table with sources.

Precedence: set by the program, then environment variable, then default.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Option:
    """One option. `parse` turns the environment variable's text into the value. `ignored`: why nothing reads it.

    `also`: variables of torch's that mean the same; they are asked in order, behind `env`.
    """

    name: str
    default: Any
    doc: str
    env: str
    parse: Callable[[str], Any]
    ignored: str = ""
    also: tuple[str, ...] = ()

    def variable(self) -> str | None:
        """The environment variable that is set for it."""
        return next((name for name in (self.env, *self.also) if name in os.environ), None)


@dataclass(frozen=True, eq=False)
class Row:
    """An option with its value now and where it came from (default, env, set)."""

    name: str
    value: Any
    default: Any
    source: str
    doc: str
    env: str


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off", ""):
        return False
    raise ValueError(f"expected 0 or 1, got {text!r}")


def _level(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError(f"expected 0, 1, 2 or 3, got {text!r}")
    return int(text)


def _after(text: str) -> str:
    if text not in ("", "dynamo", "aot"):
        raise ValueError(f"expected dynamo or aot, got {text!r}")
    return text


def _repro_level(text: str) -> int:
    if text not in ("1", "2", "3", "4"):
        raise ValueError(f"expected 1, 2, 3 or 4, got {text!r}")
    return int(text)


def _megabytes(text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"expected a number of megabytes, got {text!r}")
    return int(text)


def _logs(text: str) -> str:
    from dynamo.trace import logs  # noqa: PLC0415  # only where the option is set

    return logs.parse(text)


_TORCHS = "an option of torch's that programs set"

OPTIONS: tuple[Option, ...] = (
    Option("recompile_limit", 8, "compiles of one code object before it runs only from its cache", "DYNAMO_RECOMPILE_LIMIT", int),
    Option("suppress_errors", True, "on an internal error warn and run the frame in eager; off: raise", "DYNAMO_SUPPRESS_ERRORS", _flag),
    Option("disable", False, "run everything in eager", "DYNAMO_DISABLE", _flag, also=("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")),
    Option("debug_function", "", "compile only these: names, globs, `file:line`, with commas", "TORCHDYNAMO_DEBUG_FUNCTION", str),
    Option("verbose", False, "accepted for programs that set it; `--internals` shows our own frames", "DYNAMO_VERBOSE", _flag, _TORCHS),
    Option("error_on_break", False, "treat each graph break as an error, as fullgraph=True does", "DYNAMO_ERROR_ON_BREAK", _flag),
    Option("error_on_recompile", False, "raise where a function would be compiled once more", "DYNAMO_ERROR_ON_RECOMPILE", _flag),
    Option("check_surroundings", False, "compare torch's global state around every compiled call", "DYNAMO_CHECK_SURROUNDINGS", _flag),
    Option("c_optimize", 3, "optimisation level of the C compiler: 0 to 3; 1 builds faster, for tests", "DYNAMO_C_OPTIMIZE", _level),
    Option("sanitizer_calls", 4, "calls of each graph that the backend `sanitizer` checks", "DYNAMO_SANITIZER_CALLS", int),
    Option(
        "sanitizer_kernels", "", "kernels it checks: `cpu`, `cuda`, '' for those of the tensors' device", "DYNAMO_SANITIZER_KERNELS", str
    ),
    Option("kernel_times", False, "measure every kernel alone when it is loaded onto a GPU, for the record", "DYNAMO_KERNEL_TIMES", _flag),
    Option("guard_times", False, "after each compile, measure what every guard of it costs, for the record", "DYNAMO_GUARD_TIMES", _flag),
    Option("replay_record_enabled", False, "where a capture fails, keep the frame for `replay`", "TORCH_COMPILE_REPLAY_RECORD", _flag),
    Option("replay_record_always", False, "write every frame that is compiled", "DYNAMO_REPLAY_RECORD_ALWAYS", _flag),
    Option("replay_record_dir", "", "where the files go; empty: torch_compile_debug/error_recordings", "DYNAMO_REPLAY_RECORD_DIR", str),
    Option("cache", True, "keep compiled graphs and built kernels on disk, for the next process", "DYNAMO_CACHE", _flag),
    Option("graph_cache", True, "keep compiled graphs there too; off: built kernels only", "DYNAMO_GRAPH_CACHE", _flag),
    Option("cache_dir", "", "folder of that cache; empty: dynamo-debug in the user's cache folder", "DYNAMO_CACHE_DIR", str),
    Option("cache_limit", 512, "megabytes it may hold; what was used longest ago goes first", "DYNAMO_CACHE_LIMIT", _megabytes),
    Option("force_disable_caches", False, "use no cache, whatever `cache` says", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", _flag),
    Option("freezing", False, "trust that parameters never change where no gradient is needed", "DYNAMO_FREEZING", _flag),
    Option("max_autotune", False, "measure how kernels of a GPU are cut, whatever the mode", "TORCHINDUCTOR_MAX_AUTOTUNE", _flag),
    Option("cudagraphs", False, "capture compiled graphs as CUDA graphs, whatever the mode", "TORCHINDUCTOR_CUDAGRAPHS", _flag),
    Option("keep_freed_memory", True, "let glibc keep 64 MB of freed memory; read at the first graph", "DYNAMO_KEEP_FREED_MEMORY", _flag),
    Option(
        "capture_scalar_outputs",
        False,
        "keep numbers read from tensors in the graph where only tensor arithmetic uses them",
        "DYNAMO_CAPTURE_SCALAR_OUTPUTS",
        _flag,
    ),
    Option(
        "capture_dynamic_output_shape_ops",
        False,
        "accepted for programs that set it; shapes are static, so operators whose result's shape depends on data break; "
        "`x[mask] = v`, `torch.where`, `nonzero_static` and counts don't",
        "DYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",
        _flag,
        _TORCHS,
    ),
    Option("compile_debug", False, "write a folder of graphs, IR, code and logs per compiled graph", "TORCH_COMPILE_DEBUG", _flag),
    Option("debug_dir", "", "where torch_compile_debug goes; empty: the current folder", "TORCH_COMPILE_DEBUG_DIR", str),
    Option("inductor_trace", False, "the same per graph, by content, in the cache folder", "TORCHINDUCTOR_TRACE", _flag),
    Option("logs", "", "artefacts to print on stderr: names with commas, or help", "DYNAMO_LOGS", _logs),
    Option("repro_after", "", "write down graphs that fail: `dynamo` or `aot`", "TORCHDYNAMO_REPRO_AFTER", _after, also=("REPRO_AFTER",)),
    Option(
        "repro_level",
        2,
        "1: as a script; 2: as a launcher of the minifier; 3: every graph, before it is compiled; 4: those that fail or have wrong numbers",
        "TORCHDYNAMO_REPRO_LEVEL",
        _repro_level,
        also=("REPRO_LEVEL",),
    ),
    Option(
        "repro_dir", "", "where; empty: minifier_USER in the folder for temporary files", "TORCHDYNAMO_REPRO_DIR", str, also=("REPRO_DIR",)
    ),
)

ALIASES = {"cache_size_limit": "recompile_limit", "triton.cudagraphs": "cudagraphs"}

_BY_NAME = {o.name: o for o in OPTIONS}
_set: dict[str, Any] = {}


class ConfigError(AttributeError, ValueError):
    """An unknown option or a value that can't be read."""


def _name(name: str) -> str:
    name = ALIASES.get(name, name)
    if name not in _BY_NAME:
        near = difflib.get_close_matches(name, _BY_NAME, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; options are {', '.join(sorted(_BY_NAME))}"
        raise ConfigError(f"unknown option {name!r}{hint}")
    return name


def get(name: str) -> Any:
    name = _name(name)
    if name in _set:
        return _set[name]
    option = _BY_NAME[name]
    variable = option.variable()
    if variable is None:
        return option.default
    try:
        return option.parse(os.environ[variable])
    except ValueError as e:
        raise ConfigError(f"{variable}: {e}") from e


def source(name: str) -> str:
    """Where the value of an option comes from: set, env or default."""
    return "set" if _name(name) in _set else "env" if _BY_NAME[_name(name)].variable() else "default"


def rows() -> list[Row]:
    """All options with value and source."""
    return [Row(o.name, get(o.name), o.default, source(o.name), o.doc, o.env) for o in OPTIONS]


@contextlib.contextmanager
def patch(**values: Any) -> Iterator[None]:
    """Set options for a while. What other code, or another thread, sets meanwhile stays."""
    wanted = {_name(name): value for name, value in values.items()}
    before = {name: _set[name] for name in wanted if name in _set}
    _set.update(wanted)
    try:
        yield
    finally:
        for name in wanted.keys() - before.keys():
            _set.pop(name, None)
        _set.update(before)


def reset() -> None:
    """Forget what the program set."""
    _set.clear()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if any(alias.startswith(f"{name}.") for alias in ALIASES):
        return _Group(name)
    return get(name)


class _Group:
    """Options that torch names in two parts: `config.triton.cudagraphs`."""

    def __init__(self, name: str) -> None:
        self.__dict__["_group"] = name

    def __getattr__(self, name: str) -> Any:
        return get(f"{self._group}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        _set[_name(f"{self._group}.{name}")] = value


class _Config(types.ModuleType):
    """Makes `config.NAME = value` set an option."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _set[_name(name)] = value


sys.modules[__name__].__class__ = _Config
