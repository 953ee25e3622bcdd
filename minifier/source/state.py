"""Source as a state: a tree in canonical form, its text, and what is asked of it again and again."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import libcst as cst

from minifier.source.canonical import canonical
from minifier.source.tree import Changes, Path, at, edited, walk

# Texts, numbers, names, operators. Near enough to Python's own tokens for an order, many times faster, and the same for every version.
_TEXTS = r"""(?:'''[\s\S]*?'''|\"""[\s\S]*?\"""|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
_TOKENS = re.compile(rf"[rRbBuUfF]{{0,2}}{_TEXTS}|\d[\w.]*|\w+|[-+*/%@&|^<>=!~:]+|[()\[\]{{}},.;]")
_LONGEST = 60


class SourceError(ValueError):
    """The text is not Python."""


class Place(NamedTuple):
    """A part of the source as people see it: its first line, and which one of equals it is."""

    text: str
    number: int = 1

    def __str__(self) -> str:
        return f"`{self.text}`" if self.number == 1 else f"`{self.text}` ({self.number})"


@dataclass(frozen=True)
class Source:
    """A module. Equal texts are equal states."""

    text: str
    tree: cst.Module = field(compare=False, repr=False)
    memo: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    looks: dict[cst.CSTNode, str] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def size(self) -> tuple[int, int, int, str]:
        """Lines, tokens, characters, the text. `pass` is no line."""
        lines = sum(line.strip() != "pass" for line in self.text.splitlines())
        return lines, len(_TOKENS.findall(self.text)), len(self.text), self.text

    @cached_property
    def nodes(self) -> tuple[tuple[Path, cst.CSTNode], ...]:
        """All nodes, each before those below it."""
        return tuple(walk(self.tree))

    def at(self, path: Path) -> cst.CSTNode:
        return at(self.tree, path)

    def places(self, wanted: Callable[[Source], Iterator[Path]]) -> dict[Place, Path]:
        """What `wanted` lists, by its look, in order."""
        found: dict[Place, Path] | None = self.memo.get(wanted)
        if found is None:
            found, seen = {}, dict[str, int]()
            for path in wanted(self):
                text = self._look(path)
                seen[text] = seen.get(text, 0) + 1
                found[Place(text, seen[text])] = path
            self.memo[wanted] = found
        return found

    def _look(self, path: Path) -> str:
        """The first line of a node, which many states share."""
        node = self.at(path)
        if node not in self.looks:
            text = self.tree.code_for_node(_head(node)).strip().partition("\n")[0].removesuffix(" ...")
            self.looks[node] = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
        return self.looks[node]


def _head(node: cst.CSTNode) -> cst.CSTNode:
    """A node without what stands below its first line."""
    if isinstance(node, cst.Param):
        return node.name
    if isinstance(node, cst.Annotation):
        return node.annotation
    if not isinstance(getattr(node, "body", None), cst.IndentedBlock):
        return node
    bare: dict[str, Any] = {"body": cst.SimpleStatementSuite([cst.Expr(cst.Ellipsis())])}
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        bare["decorators"] = ()
    return node.with_changes(**bare)


def parsed(text: str) -> Source:
    """The state of a text. Raises SourceError."""
    try:
        tree = canonical(cst.parse_module(text))
    except (cst.ParserSyntaxError, cst.CSTValidationError, RecursionError) as e:
        raise SourceError(f"not Python: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from e
    if not compiles(tree.code):
        raise SourceError("not Python: does not compile")
    return Source(tree.code, tree)


def compiles(text: str) -> bool:
    """Whether the compiler takes it. What it warns of is the program's business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<source>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return False
    return True


def changed(source: Source, changes: Changes) -> Source | None:
    """The state with changes, or None where that is no program, or no smaller one."""
    if not changes:
        return None
    try:
        tree = edited(source.tree, changes)
        text = tree.code
    except (cst.CSTValidationError, cst.CSTLogicError, TypeError, ValueError):
        return None
    if text == source.text or not compiles(text):
        return None
    made = Source(text, tree, looks=source.looks)
    return made if made.size < source.size else None
