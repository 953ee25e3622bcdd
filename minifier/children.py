"""Processes that a script starts, while the script is run for a tool: they take part, and say how they ended.

Forks go on with what the script has. Python programs, and processes of `multiprocessing` that are not forked, begin with what `take_part`
names.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamo.peer.children import follow
from minifier.programs import MODULE, program

ENDS = "DYNAMO_DEBUG_ENDS"  # the folder in which children say how they ended
_UNNAMED = re.compile(r"[^\w-]+")
_children: set[int] = set()  # this process, where it is a program that the script starts


@dataclass(frozen=True)
class Child:
    """A process that a script has started, as the words behind `python`, and the exception that ended it. `is_part` is the script itself
    in another process; `internal` are failures of the compiler's own that it went on after."""

    words: tuple[str, ...]
    folder: str
    problem: str = ""
    is_part: bool = False
    internal: tuple[str, ...] = ()

    def __str__(self) -> str:
        way_out = f"; `dynamo-debug minify {shlex.join(self.words)}` in {self.folder} looks at it alone" if self.words else ""
        return f"a program that the script starts fails: {self.problem or '; '.join(self.internal)}{way_out}"


def key() -> str:
    """What names of this process begin with, in a script of several: the name that `multiprocessing` gives it, its rank, its program. ''
    in the script itself and in its plain forks."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        name = process.current_process().name
    elif not _children:
        return ""
    elif os.environ.get("RANK", "").isdigit():
        name = f"r{os.environ['RANK']}"
    else:
        name = Path(sys.argv[0]).stem
    return _UNNAMED.sub("-", name) + "."


def take_part(begin: str, words: Sequence[str], **request: Any) -> None:
    """Have processes that this one starts begin with a function, which gets `request` and calls `begun`. `words`: those of the script."""
    script = str(program(words[0], words[1:]).path.absolute())
    follow(begin, {**request, "script": script, "ends": os.environ.pop(ENDS, "")})


def begun(request: dict[str, Any]) -> None:
    """This is a process that the script has started; it says how it ends."""
    _children.add(os.getpid())
    if not request["ends"]:
        return
    own = os.getpid()
    told = Path(request["ends"], f"{own}.json")
    is_part = "multiprocessing.spawn" in sys.modules or os.path.abspath(sys.argv[0]) == request["script"]

    def end() -> None:
        if os.getpid() == own:
            error: Any = getattr(sys, "last_value", None)
            said = "" if error is None else traceback.format_exception_only(error)[-1].strip().splitlines()[0]
            _tell(told, Child(_words(), os.getcwd(), said, is_part, internal()))

    atexit.register(end)


def internal() -> tuple[str, ...]:
    """Failures of a compiler's own in this process, which it went on after: ours does, and of torch's a script may catch what it raises."""
    errors: Any = sys.modules.get("dynamo.internal_errors")
    ours = () if errors is None else tuple(f"{kind} at {place} [{error_id}]" for error_id, kind, place in errors.internal_errors())
    patient: Any = sys.modules.get("dynamo.peer.patient")
    return ours if patient is None else (*ours, *dict.fromkeys(patient.failures))


def _tell(file: Path, child: Child) -> None:
    partial = file.with_suffix(".partial")
    try:
        partial.write_text(json.dumps(asdict(child)))
        partial.rename(file)
    except OSError:  # the run is over and its folder gone
        return


def _words() -> tuple[str, ...]:
    """What stands behind `python` on the command line of this process, without options; nothing for a text that is no file."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        return (MODULE, str(spec.name).removesuffix(".__main__"), *sys.argv[1:])
    return tuple(sys.argv) if os.path.isfile(sys.argv[0]) else ()


def children_of(folder: Path) -> tuple[Child, ...]:
    """Those that said there how they ended, and not well. Raises OSError, ValueError."""
    told = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    children = [Child(**{**data, "words": tuple(data["words"]), "internal": tuple(data["internal"])}) for data in told]
    return tuple(child for child in children if child.problem or child.internal)
