"""Programs by number: the same ones each time, all of them scripts."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from minifier.fuzz.draw.drawing import BLOCK, Block, drawn, places
from minifier.fuzz.draw.kinds import KINDS
from minifier.fuzz.draw.operator_programs import ROWS
from minifier.fuzz.draw.scripts import raising, script_of
from minifier.fuzz.draw.tensor_ops import pad
from minifier.fuzz.draw.writer import Writer

_DRAW = "import json, sys; from minifier.fuzz.draw.drawing import *; json.dump([drawn(Block(k, 3, 1)) for k in sys.argv[1:]], sys.stdout)"


def test_a_number_is_the_same_program_in_every_process() -> None:
    def blocks() -> list[list[str | None]]:
        done = subprocess.run([sys.executable, "-c", _DRAW, "calls", "modules"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    first = blocks()

    assert first == blocks()
    assert all(len(block) == BLOCK and sum(text is not None for text in block) > BLOCK // 2 for block in first)


def test_kinds_take_turns_and_every_number_has_its_place() -> None:
    kinds = tuple(KINDS)
    round_ = sum(k.share for k in KINDS.values())
    found = list(itertools.islice(places(kinds, 0), BLOCK * round_))

    assert [n for n, *_ in found] == list(range(BLOCK * round_))
    assert len({place[1:] for place in found}) == len(found)
    assert {kind: sum(f[1] == kind for f in found[:round_]) for kind in kinds} == {k.name: k.share for k in KINDS.values()}
    assert list(itertools.islice(places(kinds, 17), 5)) == found[17:22]


@pytest.mark.parametrize("kind", KINDS)
def test_every_program_is_a_script(kind: str) -> None:
    for text in filter(None, drawn(Block(kind, 0, 0))):
        tree = ast.parse(text)
        assert {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} >= {"program", "run", "eager", "compiled"}
        assert raising(text) != text
        ast.parse(raising(text))


def test_a_round_of_small_programs_has_every_operator() -> None:
    scripts = [text for number in range(len(ROWS) // BLOCK) for text in drawn(Block("operators", 0, number))]
    wanted = [max(re.split(r"\{\w*\}", row), key=len).strip() for _, row in ROWS[: len(scripts)]]
    found = [text is not None and name in text for name, text in zip(wanted, scripts, strict=True)]

    assert sum(found) > 0.9 * len(found)  # some want operands that all tries did not make


def test_a_script_for_torchs_compiler_needs_nothing_of_ours() -> None:
    text = script_of("def program(compile): return [make((2,), torch.float32), comparable({'a': 'b'})]", "torch")

    assert "minifier" not in text
    names: dict[str, object] = {"__name__": "drawn"}
    exec(compile(text, "drawn", "exec"), names)
    assert len(names["run"](names["eager"])) == 2


def test_named_operators_are_the_only_ones() -> None:
    bodies = [ast.parse(text) for text in filter(None, drawn(Block("tensors", 0, 0, ("sin", "where"))))]
    functions = [n for tree in bodies for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "f"]
    statements = [ast.unparse(s) for f in functions for s in f.body if not isinstance(s, (ast.Return, ast.Pass))]

    assert len(statements) > BLOCK
    assert [s for s in statements if "sin(" not in s and "where(" not in s] == []


@pytest.mark.parametrize("line", ["n[::2] = x", "n.view(2, 2).select(0, 1).fill_(x)", "n.gt_(x)", "v0[0].ge_(x)", "v1 = n.eq_(x)"])
def test_integers_are_not_given_a_history(line: str) -> None:
    def written(requires_grad: bool) -> tuple[bool, bool]:
        writer = Writer(lambda strategy: None, names=["n", "x", "v0"])
        writer.env.update(n=torch.arange(4), x=torch.tensor(2.0, requires_grad=requires_grad), v0=torch.ones(2, 2) > 0)
        return writer.run(line), any(writer.value(name).requires_grad for name in ("n", "v0"))

    assert written(False) == (True, False)
    assert written(True) == (False, False)


@pytest.mark.parametrize("line", ["b.unsqueeze_(0)", "b.add_(1)", "b.t_()", "b[0].mul_(a.detach())"])
def test_what_is_tried_before_a_write_is_no_write(line: str) -> None:
    writer = Writer(lambda strategy: None, names=["a", "b"])
    writer.env.update(a=torch.tensor(2.0, requires_grad=True), b=torch.ones(2, 3))
    assert writer.run(line)
    b = torch.ones(2, 3)
    exec(line, {"a": torch.tensor(2.0), "b": b})
    assert torch.equal(writer.value("b"), b)


@pytest.mark.parametrize(("text", "shape", "is_drawn"), [("(-1, 1)", (3, 1), False), ("(-1, 1)", (1, 2), True), ("(1, 1)", (3, 1), True)])
def test_what_circular_pads_repeat_is_there(text: str, shape: tuple[int, ...], is_drawn: bool) -> None:
    row = f"F.pad({{v}}, {text}, mode='circular')"
    writer: Any = SimpleNamespace(one_of=lambda rows: row, any_name=lambda: "x", value=lambda name: torch.ones(shape), fresh=lambda: "y")

    assert (pad(writer) is not None) == is_drawn
