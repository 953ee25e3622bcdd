"""Programs of the loop IR read from their printed form: how tests write one by hand, and hold that the text says everything."""

from __future__ import annotations

import re

from inductor.ir import types
from inductor.ir.affine import Axis, Index, const, of_atom
from inductor.ir.dims import Dim
from inductor.ir.expr import Expr, FloatBits
from inductor.ir.nest import BACKWARD, Batch, Buffer, Nest, Origin, Program, Store, View
from inductor.ir.text import KIND_WORDS


class ParseError(ValueError):
    """Text that is not loop IR; the message names the line."""


_TOKEN = re.compile(r"\s*(//|[()+*%]|-?\d+|[\w$]+)")


class _IndexParser:
    """Recursive descent over `3*i0 + ((i1 + 2)//4) + 7`."""

    def __init__(self, text: str, axes: dict[str, Axis]) -> None:
        self.tokens = _TOKEN.findall(text)
        self.axes = axes

    def sum(self) -> Index:
        total = self.product()
        while self.tokens and self.tokens[0] == "+":
            self.tokens.pop(0)
            total = total + self.product()
        return total

    def product(self) -> Index:
        if re.fullmatch(r"-?\d+", self.tokens[0]):
            number = int(self.tokens.pop(0))
            if self.tokens and self.tokens[0] == "*":
                self.tokens.pop(0)
                return self.atom() * number
            return const(number)
        return self.atom()

    def atom(self) -> Index:
        token = self.tokens.pop(0)
        if token != "(":
            return of_atom(self.axes[token])
        self._expect("(")
        inner = self.sum()
        self._expect(")")
        operator, by = self.tokens.pop(0), int(self.tokens.pop(0))
        self._expect(")")
        return inner // by if operator == "//" else inner % by

    def _expect(self, token: str) -> None:
        found = self.tokens.pop(0)
        if found != token:
            raise ParseError(f"expected {token!r}, found {found!r}")


def _parse_axes(text: str) -> tuple[Axis, ...]:
    pairs = (item.strip().split(":") for item in text.strip().strip("()").split(",") if item.strip())
    return tuple(Axis(name, int(length)) for name, length in pairs)


def _parse_ints(text: str) -> tuple[int, ...]:
    return tuple(int(t) for t in text.split(",") if t.strip())


_BUFFER = re.compile(r"(in|const|temp|made|object) (\S+): ([\w.]+)\[(.*?)\] \((.*?)\)$")
_NEST = re.compile(r"nest (\S+) \((.*?)\)(?: ; (.*))?$")
_ROW = re.compile(r"  row (\d+): (.*)$")
_ASSIGN = re.compile(r"  (%\d+) = (.*) : (\w+)$")
_STORE = re.compile(r"  store (\S+?)\[(.*)\] (\+?=) (%\d+)$")
_CALL = re.compile(r"(\w+)\((.*)\)$")
_REDUCE = re.compile(r"reduce (\w+)\.(\d+)\((%\d+)\) over (\(.*\))$")
_SCAN = re.compile(r"scan (\w+)\((%\d+)\) along (\(.*\))$")
_CHECK = re.compile(r"check (\d+) of \((%\d+)\)$")
_LOAD = re.compile(r"load (\S+?)\[(.*)\]$")
_VIEW = re.compile(r"(\w+)\[(.*?)\]\((.*?)\)\+(\d+)")


class _NestParser:
    def __init__(self, header: str) -> None:
        match = _NEST.match(header)
        if not match:
            raise ParseError(f"not a nest header: {header!r}")
        self.name = match[1]
        self.axes = _parse_axes(match[2])
        self.scope = {a.name: a for a in self.axes}
        self.origins = tuple(_parse_origin(o) for o in match[3].split(" | ")) if match[3] else ()
        self.values: dict[str, Expr] = {}
        self.stores: list[Store] = []

    def scan_ahead(self, lines: list[str]) -> None:
        """Reduced axes are declared after their first use, so collect them before parsing indices."""
        for line in lines:
            for name, length in re.findall(r"([A-Za-z]\w*):(\d+)", line.split(" over ")[-1]) if " over " in line else ():
                self.scope[name] = Axis(name, int(length))

    def index(self, text: str) -> tuple[Index, tuple[Expr, ...]]:
        body, _, bound = text.partition(" | ")
        scope, indirect = dict(self.scope), []
        for item in bound.split(", ") if bound else ():
            axis, value = item.split("=")
            scope[axis.split(":")[0]] = _parse_axes(axis)[0]
            indirect.append(self.values[value])
        return _IndexParser(body, scope).sum(), tuple(indirect)

    def line(self, line: str) -> None:
        stored = _STORE.match(line)
        if stored:
            index, indirect = self.index(stored[2])
            mode = "add" if stored[3] == "+=" else "set"
            self.stores.append(Store(stored[1], index, self.values[stored[4]], mode, indirect))
            return
        assigned = _ASSIGN.match(line)
        if not assigned:
            raise ParseError(f"not an instruction: {line!r}")
        self.values[assigned[1]] = self.value(assigned[2], assigned[3])

    def value(self, text: str, type_name: str) -> Expr:
        word = text.split(" ", 1)[0]
        if word == "const":
            literal = text.split(" ", 1)[1]
            is_float = types.is_float(type_name)
            return Expr("const", type_name, (), FloatBits(float.fromhex(literal)) if is_float else int(literal))
        if word == "index":
            return Expr("index", type_name, (), self.index(text.split(" ", 1)[1])[0])
        if match := _LOAD.match(text):
            index, indirect = self.index(match[2])
            return Expr("load", type_name, indirect, (match[1], index))
        if match := _REDUCE.match(text):
            return Expr("reduce", type_name, (self.values[match[3]],), (match[1], _parse_axes(match[4]), int(match[2])))
        if match := _SCAN.match(text):
            return Expr("scan", type_name, (self.values[match[2]],), (match[1], _parse_axes(match[3])[0]))
        if match := _CHECK.match(text):
            return Expr("check", type_name, (self.values[match[2]],), int(match[1]))
        match = _CALL.match(text)
        if not match:
            raise ParseError(f"not a value: {text!r}")
        return Expr(match[1], type_name, tuple(self.values[a] for a in match[2].split(", ")))

    def finish(self) -> Nest:
        return Nest(self.name, self.axes, tuple(self.stores), self.origins)


def _parse_origin(text: str) -> Origin:
    is_backward = text.endswith(BACKWARD)
    op, _, place = text.removesuffix(BACKWARD).partition(" ")
    file, _, line = place.rpartition(":")
    return Origin(op, file, int(line) if line else 0, is_backward)


def parse_program(text: str) -> Program:
    """Read a program of buffers and nests. Extern calls hold operators and are printed for people only: they are refused."""
    program = Program()
    lines = text.splitlines()
    words = {word: kind for kind, word in KIND_WORDS.items()}
    at = 0
    rows: list[tuple[Dim, tuple[str, ...]]] = []
    while at < len(lines):
        line = lines[at]
        at += 1
        if match := _BUFFER.match(line):
            dtype = types.TYPES[match[3]].torch
            buffer = Buffer(match[2], dtype, _parse_ints(match[4]), _parse_ints(match[5]), words[match[1]])
            program.buffers[buffer.name] = buffer
            if buffer.kind == "input":
                program.inputs.append(buffer.name)
        elif line.startswith("nest "):
            end = at
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
            nest = _NestParser(line)
            nest.scan_ahead(lines[at:end])
            for body in lines[at:end]:
                nest.line(body)
            made = nest.finish()
            program.steps.append(Batch(made, tuple(r for _, r in rows), tuple(n for n, _ in rows)) if rows else made)
            at, rows = end, []
        elif match := _ROW.match(line):
            rows.append((int(match[1]), tuple(match[2].split(", "))))
        elif line == "batch":
            rows = []
        elif line.startswith("return"):
            program.outputs = [View(m[1], _parse_ints(m[2]), _parse_ints(m[3]), int(m[4])) for m in _VIEW.finditer(line)]
        elif line.strip():
            raise ParseError(f"line {at}: cannot read {line!r}")
    return program
