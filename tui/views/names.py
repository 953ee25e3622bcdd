"""Names as the author of a program writes them: of functions, of values that guards read, of nodes of graphs."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dynamo.trace.model import CAPTURE, Compile, Frame, Place, Run, short
from dynamo.trace.names import beginning

# What decorators call the function they put in place of another.
_WRAPPERS = re.compile(r"(^|\.)(_?wrap\w*|wrapper\w*|\w*_wrapper|inner|_inner|decorate\w*|decorated|_?fn|new_func|forward_with_\w+)$")
_TORCH_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>\w+?)_at_(?P<line>\d+)$")
_ON_STACK = re.compile(r"___stack(\d+)")
_STACK_ENTRY = re.compile(r"(?P<file>.+):(?P<line>\d+) (?P<name>.+)$")
_MODULE_CALL = ".__call__"
_MODULE_COMPILED = "Module._call_impl"  # what `module.compile()` compiles
_BEFORE_BREAK = "a value from before the break"

# Paths of guards, step by step: pattern and what a program writes for it.
_PATHS = (
    (re.compile(r"\.__dict__\['(?:_modules|_parameters|_buffers)'\](?:\['([^']+)'\])"), r".\1"),
    (re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]"), r".\1"),
    (re.compile(r"\.__dict__\['([A-Za-z_]\w*)'\]"), r".\1"),
    (re.compile(r"\b[LG]\['([A-Za-z_]\w*)'\]"), r"\1"),
    (re.compile(r"\bkwargs\['([A-Za-z_]\w*)'\]"), r"\1"),
    (re.compile(r"\.cell_contents\b"), ""),
    (re.compile(r"\bself\.(?=[\w.]*\.(?:weight|bias)\b|[\w.]*\.\d+\.)"), ""),
)
_OPERATORS = {
    "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=", "add": "+", "sub": "-", "mul": "*", "truediv": "/",
    "floordiv": "//", "mod": "%", "pow": "**", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
# What is computed of a number: the function, the arguments in front of it and behind it.
_COMPUTED = re.compile(r"(?P<fn>\w+)\(\((?P<before>[^()]*)\), \((?P<after>[^()]*)\)\)\((?P<of>[^()]*)\)")
_SHIFTED = re.compile(r"(?<![\w)\]])(?P<sign>[+-])(?P<by>\d+)\((?P<of>[^()]*)\)")
_PYBIND = re.compile(r"\b(?:builtin )?pybind11_detail_function_record_\w+\.")
_ARGUMENT = re.compile(r"\bargs\[(\d+)\]")
_HEADER = 40  # lines that the head of a method may have
_HEAD = re.compile(r"\s*def \w+\(.*?\)\s*(?:->[^:\n]+)?:(?=\s*(?:#.*)?\n)", re.DOTALL)
_MANGLED = re.compile(r"___dict____(?:modules|parameters|buffers)_")


@dataclass(frozen=True)
class Function:
    """A function of the program. `resumes` is the line at which the rest of it after a break begins, 0 for the whole."""

    name: str
    file: str
    line: int
    resumes: int = 0

    @property
    def title(self) -> str:
        return f"{self.name}, resumes at line {self.resumes}" if self.resumes else self.name

    @property
    def at(self) -> str:
        return f"{short(self.file)}:{self.line}" if self.file else ""


def function_of(run: Run, frame: Frame | Compile) -> Function:
    """The function a frame or a compile is of. What a decorator put around a method is called by the name of the method."""
    compiles = frame.compiles if isinstance(frame, Frame) else [frame]
    first = compiles[0] if compiles else None
    found = _TORCH_RESUME.match(frame.name)
    if found:
        return Function(found["name"], frame.file, frame.line, int(found["line"]))
    resumes = (first.resumes or _broke_at(run, first)) if first is not None and first.is_resume else 0
    name, place = beginning(frame.name), (frame.file, frame.line)
    if name.endswith(_MODULE_CALL):
        forward = name.removesuffix(_MODULE_CALL) + ".forward"
        inner = (forward, place) if "def forward(" in run.source_line(place) else _wrapped(compiles, frame.file)
        name, place = inner if inner is not None and inner[0] == forward else (name, place)
    if name == _MODULE_COMPILED:
        name, place = _wrapped(compiles, frame.file) or (name, place)
    if "<locals>" in name:
        inner = _wrapped(compiles) if _WRAPPERS.search(name) else None
        name, place = inner if inner is not None else (name.rpartition("<locals>.")[2], place)
    return Function("lambda" if name == "<lambda>" else name, place[0], place[1], resumes)


def passes_on(run: Run, frame: Frame | Compile) -> bool:
    """Whether it is the call of a module, which is captured as its `forward` and, where that breaks, beside it."""
    name = beginning(frame.name)
    return (name.endswith(_MODULE_CALL) or name == _MODULE_COMPILED) and function_of(run, frame).name.endswith(".forward")


def by_parameter(text: str, run: Run, function: Function) -> str:
    """A value of a guard on `*args` of a module's call, with the name that `forward` has for it: `args[0].size(0)` is `x.size(0)`."""
    if "args[" not in text or not function.name.endswith(".forward"):
        return text
    names = _parameters("\n".join(run.source(function.file)[function.line - 1 : function.line + _HEADER]))
    return _ARGUMENT.sub(lambda m: names[int(m[1])] if int(m[1]) < len(names) else m[0], text)


@lru_cache(maxsize=256)
def _parameters(text: str) -> tuple[str, ...]:
    """Positional parameters behind `self` of the method that the text begins with; none where it begins with something else."""
    header = _HEAD.match(text)
    if header is None:
        return ()
    try:
        method = ast.parse(header[0].strip() + " pass").body[0]
    except SyntaxError:
        return ()
    found = [*method.args.posonlyargs, *method.args.args] if isinstance(method, ast.FunctionDef) else []
    return tuple(a.arg for a in found[1:])


def _broke_at(run: Run, item: Compile) -> int:
    """The line of the break that led to a compile, in records that do not say where it resumes."""
    parent = run.compiles.get(item.parent)
    return parent.breaks[-1].line if parent is not None and parent.breaks else 0


def _wrapped(compiles: list[Compile], passing: str = "") -> tuple[str, Place] | None:
    """The outermost function with a name of its own that everything in these compiles was called by, none of the file `passing`."""
    seen: Counter[tuple[str, str]] = Counter()
    first = 0 if passing else 1
    compiles = compiles[:1]  # the others are of the same code
    stacks = [n.stack for c in compiles for g in c.graphs if g.stage == CAPTURE for n in g.nodes]
    stacks += [b.stack for c in compiles for b in c.breaks]
    for stack in stacks:
        for entry in stack[first:]:
            found = _STACK_ENTRY.match(entry)
            if found and "<locals>" not in found["name"] and found["file"] != passing:
                seen[found["name"], found["file"]] += 1
                break
    if not seen:
        return None
    name, file = seen.most_common(1)[0][0]
    lines = [int(f["line"]) for s in stacks for e in s[first:] if (f := _STACK_ENTRY.match(e)) and f["name"] == name and f["file"] == file]
    return name, (file, min(lines))


def value(text: str, item: Compile | None = None) -> str:
    """A source of a guard, or a text that names some, as the program would write it. `item`: the compile whose stack it may read."""
    text = _PYBIND.sub("", _written(text))
    return _ON_STACK.sub(lambda m: _stack_item(int(m[1]), item), text) if "___stack" in text else text


@lru_cache(maxsize=1 << 16)
def _written(text: str) -> str:
    """Guards of layers and recompiles repeat the same few thousand texts."""
    for pattern, plain in _PATHS:
        text = pattern.sub(plain, text)
    if text == "G":
        return "globals"
    before = ""
    while before != text:
        before = text
        text = _SHIFTED.sub(lambda m: f"{m['of']} {m['sign']} {m['by']}", _COMPUTED.sub(_computed, text))
    return text


def _computed(m: re.Match[str]) -> str:
    """`gt((), (2,))(k)` is `k > 2`."""
    before = [part.strip() for part in m["before"].split(",") if part.strip()]
    after = [part.strip() for part in m["after"].split(",") if part.strip()]
    sign = _OPERATORS.get(m["fn"])
    if sign and len(before) + len(after) == 1:
        return f"{before[0]} {sign} {m['of']}" if before else f"{m['of']} {sign} {after[0]}"
    return f"{m['fn']}[{', '.join([*before, m['of'], *after])}]" if len(before) + len(after) else f"{m['fn']}[{m['of']}]"


def _stack_item(position: int, item: Compile | None) -> str:
    known = item.stack if item is not None else ()
    text = known[position] if position < len(known) else ""
    return f"`{text}`" if text else _BEFORE_BREAK


def root(source: str) -> str:
    """The variable a source begins with: `L['k']` of `float((), ())(L['k'])`; the source itself where it names none."""
    found = re.search(r"[LG]\['[^']+'\](?:\.__dict__\['\w+'\]|\['?[\w.]+'?\]|\.\w+)*", source)
    return found[0] if found else source


def node(name: str, inputs: Mapping[str, str] | None = None) -> str:
    """A node of a graph: `l_self___dict____modules_h___dict____modules_0` is `h.0`. `inputs`: what `inputs_of` knows of others."""
    bare = re.sub(r"^(?:p_|b_)(?=[lL]_)", "", name)
    known = (inputs or {}).get(bare.strip("_").lower())
    if known is not None:
        return known
    if "___dict__" not in bare:
        return name
    text = _MANGLED.sub(".", re.sub(r"^[lL]_", "", bare)).replace("___dict___", ".")
    return text.removeprefix("self.").removeprefix("self").lstrip(".") or "self"


def is_parameter(name: str) -> bool:
    """Whether a node stands for a parameter or buffer of a module."""
    return "___dict____parameters_" in name or "___dict____buffers_" in name


def inputs_of(item: Compile) -> dict[str, str]:
    """What the program calls the inputs of captured graphs, by their names there."""
    found = {}
    for guard in item.guards:
        if guard.source.startswith("L[") and "," not in guard.source:
            key = re.sub(r"\W+", "_", guard.source).strip("_").lower()
            if key not in found:
                found[key] = value(guard.source, item)
    return found
