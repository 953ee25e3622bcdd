"""What is run as `__main__`: a script, or as under Python itself `-m` with the name of a module as its first argument.

Runs of the whole program hand both words on. What looks at its text, or runs a part of it under another name, has a plain script of it.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import os
import re
import runpy
import stat
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from pathlib import Path
from typing import IO

from dynamo.peer.located import NoSuchModule, located

MODULE = "-m"
_ENCODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+.*$")  # as Python looks for it, in the first two lines
_LEADING = (str(Path(__file__).resolve().parent) + os.sep, "<frozen runpy>", runpy.__file__)  # files of the frames above a program's


@dataclass(frozen=True)
class Program:
    """`path` is its file, `folder` is where it imports from, `package` is what its relative imports start at, '' for a script."""

    path: Path
    folder: Path
    args: tuple[str, ...] = ()
    package: str = ""

    def text(self) -> str:
        """Its source as a plain script, which knows no package. Raises SyntaxError."""
        text = source_text(self.path.read_bytes())
        return absolute(text, self.package) if self.package else text


def source_text(data: bytes) -> str:
    """The source in a file, for one in UTF-8: read as Python reads it, without the comment that names another encoding. Raises
    SyntaxError, UnicodeDecodeError."""
    first, second, *rest = [*decode_source(data).split("\n"), ""]
    if not first.strip() or first.lstrip().startswith("#"):
        second = _ENCODING.sub("", second)
    return "\n".join([_ENCODING.sub("", first), second, *rest])[:-1]


def program(script: str, args: Sequence[str]) -> Program:
    """What the words of a command line mean. Imports nothing. Raises NoSuchModule."""
    if script != MODULE:
        path = Path(script)
        return Program(path, path.absolute().parent, tuple(args))
    name, *rest = args
    spec = located(name)
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise NoSuchModule(f"{name}: no such module that has a source")
    return Program(Path(spec.origin), Path.cwd(), tuple(rest), spec.parent or "")


@contextlib.contextmanager
def standard_input() -> Iterator[IO[bytes] | int]:
    """That of one run of many: ours from its beginning where it is a file, else nothing."""
    with contextlib.ExitStack() as stack:
        given: IO[bytes] | int = subprocess.DEVNULL
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(0).st_mode):
                given = stack.enter_context(open("/proc/self/fd/0", "rb"))
        yield given


def run_as_main(words: Sequence[str]) -> None:
    """Run `SCRIPT [ARGS]...` or `-m NAME [ARGS]...` as Python would, in the place of what began this process with `python -m`. Where it
    raises, its traceback begins with its own frames."""
    sys.excepthook = _shown
    script, *args = words
    if script == MODULE:
        sys.argv[:] = args
        sys.path[0] = os.getcwd()
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = words
        sys.path[0] = os.path.dirname(os.path.abspath(script))
        run_file(script, os.path.abspath(script))


def _shown(kind: type[BaseException], error: BaseException, at: types.TracebackType | None) -> None:
    """What Python prints of an exception that nothing catches, without the frames that led to the program."""
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_LEADING):
        at = at.tb_next
    sys.__excepthook__(kind, error.with_traceback(at), at)


def run_file(file: str, shown: str) -> None:
    """Run a file as `__main__`, which is found under the path `shown`: as under Python, whatever folder the program changes to."""
    with io.open_code(file) as f:
        code = compile(f.read(), shown, "exec", dont_inherit=True)
    main = types.ModuleType("__main__")
    own = {"__file__": shown, "__builtins__": builtins, "__loader__": SourceFileLoader("__main__", shown), "__cached__": None}
    vars(main).update(own)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def absolute(text: str, package: str) -> str:
    """A text of a module of `package` without imports that are relative to it, and without its name. Raises SyntaxError."""
    places: list[tuple[int, int, str, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = package.split(".")
            home = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
            places.append((node.lineno, node.col_offset, r"from[\s\\.]+(?:[\w.\s\\]*?)\bimport\b", f"from {home} import"))
        elif isinstance(node, ast.Name) and node.id == "__package__" and isinstance(node.ctx, ast.Load):
            places.append((node.lineno, node.col_offset, "__package__", repr(package)))
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for row, column, written, instead in sorted(places, reverse=True):
        at = starts[row - 1] + len(lines[row - 1].encode()[:column].decode())
        text = text[:at] + re.sub(written, instead.replace("\\", r"\\"), text[at:], count=1)
    return text
