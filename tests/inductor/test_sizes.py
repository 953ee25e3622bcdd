"""Sizes are asked through `ir/dims`: who compares, divides or prints one elsewhere decides by a number that may one day not be known."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from inductor.ir.affine import Axis, of_atom
from inductor.ir.dims import SIZES, RunSize, SizeUnknown, at_least, divides, is_empty, is_one, known_equal, number
from inductor.ir.expr import call, load, reduce
from inductor.ir.nest import Buffer, Nest, Program, Store
from inductor.runtime import devices
from inductor.runtime.pool import Job
from inductor.runtime.recipe import recipe_of
from inductor.schedule.plan import schedule
from inductor.targets import registry

ROOT = Path(__file__).resolve().parents[2]
HOME = ("inductor/ir/dims.py", "inductor/ir/affine.py")
NAMES = frozenset({"extent", "extents"})  # attributes and variables that hold sizes; a number taken from one has another name
SHAPES = frozenset({"shape", "small", "size"})  # what holds sizes in the lowering, whose tensors are not torch's
NUMBERS_ONLY = frozenset("abs all any divmod float format int max min pow range repr round sorted str".split())
KEEPING = (ast.Add, ast.Sub, ast.Mult)  # operators that make sizes of sizes


def is_size(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, KEEPING) and (is_size(node.left) or is_size(node.right))
    return named(node) in NAMES


def named(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def misused(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, how) for every size that is not passed on whole."""
    for node in ast.walk(tree):
        found: list[tuple[ast.AST, str]] = []
        if isinstance(node, ast.Compare) and not any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            found = [(part, "compared") for part in (node.left, *node.comparators)]
        elif isinstance(node, ast.BinOp) and not isinstance(node.op, KEEPING):
            found = [(node.left, "divided"), (node.right, "a divisor")]
        elif isinstance(node, ast.AugAssign) and not isinstance(node.op, KEEPING):
            found = [(node.target, "divided"), (node.value, "a divisor")]
        elif isinstance(node, ast.FormattedValue):
            found = [(node.value, "printed")]
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            found = [(node.test, "taken as a truth")]
        elif isinstance(node, ast.comprehension):
            found = [(test, "taken as a truth") for test in node.ifs]
        elif isinstance(node, ast.BoolOp):
            found = [(part, "taken as a truth") for part in node.values]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NUMBERS_ONLY:
            parts = [p.elt if isinstance(p, (ast.GeneratorExp, ast.ListComp)) else p for p in node.args]
            parts = [part for p in parts for part in (p.elts if isinstance(p, ast.Tuple) else [p])]
            found = [(part, f"given to {node.func.id}") for part in parts]
        for part, how in found:
            if is_size(part):
                yield part.lineno, how  # type: ignore[attr-defined]  # every expression has a place


def misused_in_shapes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, how) for every size that is compared where it stands in a shape."""
    for node in (n for n in ast.walk(tree) if isinstance(n, ast.Compare)):
        parts = [node.left, *node.comparators]
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and named(parts[1]) in SHAPES:
            yield node.lineno, "looked for in a shape"
        if any(isinstance(p, ast.Subscript) and not isinstance(p.slice, ast.Slice) and named(p.value) in SHAPES for p in parts):
            yield node.lineno, "compared in a shape"


def test_no_size_is_looked_at_outside_its_home() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: a size is {how}; ask inductor/ir/dims.py"
        for path in sorted((ROOT / "inductor").rglob("*.py"))
        if str(path.relative_to(ROOT)) not in HOME
        for rule in ((misused, misused_in_shapes) if path.parent.name == "lowering" else (misused,))
        for line, how in rule(ast.parse(path.read_text()))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("a.extent == 1", "compared"),
        ("2 < a.extent", "compared"),
        ("c < b.coef * a.extent", "compared"),
        ("a.extent // 2", "divided"),
        ("n % a.extent", "a divisor"),
        ("n //= a.extent", "a divisor"),
        ("f'{a.extent}L'", "printed"),
        ("1 if a.extent else 2", "taken as a truth"),
        ("[a for a in b if a.extent]", "taken as a truth"),
        ("c and a.extent", "taken as a truth"),
        ("all(a.extent for a in b)", "given to all"),
        ("max(extent, 1)", "given to max"),
        ("sorted((c, a.extent) for a, c in terms)", "given to sorted"),
    ],
)
def test_the_rule_sees(text: str, how: str) -> None:
    assert [h for _, h in misused(ast.parse(text))] == [how]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("0 in x.shape", "looked for in a shape"),
        ("a or 0 not in shape", "looked for in a shape"),
        ("x.shape[k] == 1", "compared in a shape"),
        ("g == x.shape[1] == w.shape[0] > 1", "compared in a shape"),
    ],
)
def test_the_rule_sees_shapes(text: str, how: str) -> None:
    assert {h for _, h in misused_in_shapes(ast.parse(text))} == {how}


def test_the_rule_lets_sizes_pass() -> None:
    text = "Axis(n, a.extent); numel([a.extent for a in b]); hint(a.extent) < 3; a.extent is None; x = 2 * a.extent; is_one(a.extent)"
    assert list(misused(ast.parse(text))) == []


# ---- sizes that a kernel is told when it runs ----


LONGEST, WIDTH = 300_000, 64


def told_program(name: str, hint: int) -> Program:
    """A program over as many elements or rows as `x` has when it runs; its result goes to `out`."""
    program = Program(inputs=[SIZES, "x", "out"], sizes=(("x", 0),), mutated={"out"})
    rows, r = Axis("i0", RunSize(0, hint)), Axis("r0", WIDTH)
    where, column = of_atom(rows), of_atom(r)
    x = load("x", "f32", where) if name == "elements" else load("x", "f32", where * WIDTH + column)
    nest = {
        "elements": ((rows,), where, call("exp", x)),
        "matrix": ((rows, r), where * WIDTH + column, call("exp", x)),
        "rows": ((rows,), where, reduce("sum", x, (r,))),
        "column": ((r,), column, reduce("max", x, (rows,))),
    }[name]
    for buffer, shape in ((SIZES, (1,)), ("x", (LONGEST,)), ("out", (LONGEST,))):
        program.buffers[buffer] = Buffer(buffer, torch.int64 if buffer == SIZES else torch.float32, shape, (1,), "input")
    axes = tuple(Axis(f"{a.name}w", a.extent) for a in nest[0])
    back = nest[1].substitute({a: of_atom(b) for a, b in zip(nest[0], axes, strict=True)})
    program.buffers["made"] = Buffer("made", torch.float32, (LONGEST,), (1,), "temp")
    program.steps.append(Nest("n0", nest[0], (Store("made", nest[1], nest[2]),)))
    program.steps.append(Nest("n1", axes, (Store("out", back, load("made", "f32", back)),)))
    return program


EAGER = {
    "elements": lambda x: x.exp(),
    "matrix": lambda x: x.exp(),
    "rows": lambda x: x.sum(1),
    "column": lambda x: x.amax(0),
}


@pytest.mark.parametrize("hint", [2, 700, 1_000_000])
@pytest.mark.parametrize("name", EAGER)
def test_a_kernel_is_told_sizes_and_hints_change_nothing(name: str, hint: int) -> None:
    target, runtime = registry.target("cpu"), devices.runtime("cpu")
    plan = schedule(told_program(name, hint), target)
    library = runtime.start(target.source(plan))
    run = runtime.program(recipe_of(plan), library.result() if isinstance(library, Job) else library)
    for size in (2, 699, 700, 4001):
        x = torch.randn(size) if name == "elements" else torch.randn(size, WIDTH)
        out, expected = torch.zeros(LONGEST), EAGER[name](x).flatten()
        run([x, out])
        torch.testing.assert_close(out[: len(expected)], expected)
        assert not out[len(expected) :].any()


def test_what_needs_a_number_says_so() -> None:
    size = RunSize(0, 64)
    for wrong in (lambda: size < 3, lambda: size * 2, lambda: f"{size}", lambda: bool(size), lambda: number(size), lambda: -size):
        with pytest.raises(SizeUnknown):
            wrong()


def test_what_is_known_of_a_size() -> None:
    size, other = RunSize(0, 64), RunSize(1, 64)
    assert known_equal(size, RunSize(0, 2))
    assert not any(known_equal(size, n) for n in (other, 64))
    assert at_least(size, 2)
    assert at_least(size, size)
    assert not any(at_least(size, n) for n in (3, other))
    assert not any(at_least(n, size) for n in (64, 10**9, other))
    assert divides(1, size)
    assert divides(size, size)
    assert not any(divides(n, size) for n in (2, 64, other))
    assert not is_one(size)
    assert not is_empty(size)
    assert Axis("i", size) is not Axis("i", 64)
