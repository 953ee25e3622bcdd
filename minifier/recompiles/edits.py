"""Edits of Python source by place, and the parts of a program that fixes look for."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, order=True)
class Edit:
    """In `file`, replace the bytes from `start` to `end` by `text`."""

    file: str
    start: int
    end: int
    text: str


@dataclass
class Module:
    """A source file: its bytes, its tree, and who is inside of whom."""

    file: str
    data: bytes
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.file, *self.span(node), text)

    def insert_before(self, statement: ast.stmt, text: str) -> Edit:
        """A statement on the line before another one, as far in as that."""
        start = self.starts[statement.lineno - 1]
        indent = self.data[start : start + statement.col_offset].decode()
        return Edit(self.file, start, start, f"{indent}{text}\n")

    def delete(self, statement: ast.stmt) -> Edit:
        """Take whole lines out."""
        assert statement.end_lineno is not None
        return Edit(self.file, self.starts[statement.lineno - 1], self.starts[statement.end_lineno], "")

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is in, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def around(self, call: ast.Call) -> Iterator[ast.expr]:
        """What a call runs under, innermost first: context managers of blocks, decorators of functions."""
        for node in self.above(call):
            if isinstance(node, ast.With | ast.AsyncWith):
                yield from (item.context_expr for item in node.items)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from node.decorator_list

    def at_line(self, line: int, kind: type[ast.Call]) -> list[ast.Call]:
        """Nodes that begin, go through or end at a line, innermost first."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, kind) and n.lineno <= line <= (n.end_lineno or n.lineno)]
        return sorted(found, key=lambda n: self.span(n)[1] - self.span(n)[0])

    def imports(self, name: str) -> bool:
        """Whether a module can be used under its own name."""
        return any(
            isinstance(n, ast.Import) and any(a.name.partition(".")[0] == name and a.asname is None for a in n.names)
            for n in ast.walk(self.tree)
        )


class Sources:
    """The user's files, each read once."""

    def __init__(self) -> None:
        self._modules: dict[str, Module | None] = {}

    def module(self, file: str) -> Module | None:
        """None for what is no readable Python file."""
        if file not in self._modules:
            try:
                data = Path(file).read_bytes()
                self._modules[file] = Module(file, data, ast.parse(data))
            except (OSError, SyntaxError, ValueError):
                self._modules[file] = None
        return self._modules[file]

    def function(self, file: str, line: int) -> Function | None:
        """The function whose code begins at a line; its decorators are part of it."""
        module = self.module(file)
        found = [n for n in ast.walk(module.tree) if isinstance(n, Function) and _first_line(n) == line] if module is not None else []
        return found[-1] if found else None

    def parameters(self, file: str, line: int) -> list[str]:
        """What a call of that function gives by position."""
        function = self.function(file, line)
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)] if function is not None else []
        return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _first_line(node: Function) -> int:
    return node.lineno if isinstance(node, ast.Lambda) else min([node.lineno, *(d.lineno for d in node.decorator_list)])


class Overlap(ValueError):
    """Two edits change the same text."""


def applied(edits: Iterable[Edit], sources: Sources) -> dict[str, bytes]:
    """The changed files. Raises Overlap; SyntaxError where what comes out is no Python."""
    out: dict[str, bytes] = {}
    by_file: dict[str, list[Edit]] = {}
    for edit in sorted(set(edits)):
        by_file.setdefault(edit.file, []).append(edit)
    for file, found in by_file.items():
        module = sources.module(file)
        assert module is not None
        data, last = module.data, len(module.data) + 1
        for edit in reversed(found):
            if edit.end > last:
                raise Overlap(f"{file}: two edits at byte {edit.start}")
            data, last = data[: edit.start] + edit.text.encode() + data[edit.end :], edit.start
        ast.parse(data)
        out[file] = data
    return out


def diff(file: str, before: bytes, after: bytes) -> str:
    """A unified diff that `patch` takes."""
    old, new = (data.decode(errors="replace").splitlines(keepends=True) for data in (before, after))
    return "".join(difflib.unified_diff(old, new, file, file, n=1))
