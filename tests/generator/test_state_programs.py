"""Random programs with state: results, errors, output, random state and modes afterwards are eager's, compiled twice.

`make test` runs PROGRAMS per backend, always the same ones; `make fuzz` runs new ones for FUZZ_SECONDS.
"""

from __future__ import annotations

import itertools
import linecache
import math
import random
import re
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import dynamo
from minifier.compare.modes import EagerMode
from minifier.fuzz.draw.pass_programs import ALL, SOME, pass_programs
from minifier.fuzz.draw.shared_arguments import shared_programs
from minifier.fuzz.draw.state_programs import state_programs
from repro_corpus.observe import Observation, differences, observe
from repro_corpus.program import Program
from tests.generator.running import run_new_programs, run_programs

TOLERANCE = (1e-3, 1e-4)
ARGUMENT = "= torch.randn(3, 3)"  # of drawn programs
ROUNDING, DRAWS, AMPLE = 4e-7, 12, 8
HALVES = "bfloat16"  # in the text of a program that computes with them
AMPLE_OF_HALVES = 2  # they are moved where they are rounded, each alone
PROGRAMS = {"eager": 100, "aot_eager": 150, "inductor": 40}
_numbers = itertools.count()
with torch.random.fork_rng(devices=[]):  # asks for an accelerator, which a function mode sees once per process
    pass


def made(text: str) -> Program:
    """A program of the corpus from its text, in a module of its own."""
    filename = f"state_{next(_numbers)}.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType(filename)
    exec(compile(text, filename, "exec"), vars(module))
    vars(module)["_module"] = module  # a module clears its namespace when it is collected
    return Program(filename, "program", "", "", module.program)


class Spread(NamedTuple):
    """How far each element of a value moved, and how far from it another may be."""

    far: torch.Tensor
    allowed: torch.Tensor


def spreads(text: str, expected: Observation) -> dict[str, Spread]:
    """How far each element of eager's own values moves when the arguments move by roundings: `sin` of a large number keeps no digit.

    Where a program computes with halves, these are moved too: a sum in another order is another half only where it lies between two,
    which moved arguments hardly meet. Infinite where one of the two is no number. A path of other shape or type in a moved run has
    nothing to say.
    """
    found: dict[str, Spread] = {}
    for seen, ample in moved_runs(text):
        for path, value in values_of(expected):
            other = seen.facts.get(path)
            if isinstance(other, torch.Tensor) and (other.shape, other.dtype) == (value.shape, value.dtype):
                far = distances(value, other)
                known = found.get(path, Spread(far, ample * far))
                found[path] = Spread(torch.maximum(known.far, far), torch.maximum(known.allowed, ample * far))
    return found


def moved_runs(text: str) -> Iterator[tuple[Observation, int]]:
    """Eager runs with something moved by roundings, each with how many times as far others may be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for draw in range(DRAWS):
            yield observe(moved(text, draw), plain), AMPLE
        for draw in range(DRAWS) if HALVES in text else ():
            with MovedHalves(draw):
                seen = observe(made(text), plain)
            yield seen, AMPLE_OF_HALVES


class MovedHalves(EagerMode):
    """Makes a fourth of the 16-bit floats that operators compute a neighbour of what they are."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.drawn = torch.Generator().manual_seed(seed)

    def run(self, op: Any, args: Any, kwargs: Any) -> Any:
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        return tree_map(lambda t: self.neighbour(t, given), op(*args, **kwargs))

    def neighbour(self, t: Any, given: set[int]) -> Any:
        is_half = isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype.itemsize == 2
        if not is_half or t.untyped_storage()._cdata in given:
            return t
        at = torch.randint(8, t.shape, generator=self.drawn)
        to = torch.where(at == 0, math.inf, -math.inf).to(t.dtype)
        return torch.where(at < 2, torch.nextafter(t, to), t)


def moved(text: str, draw: int) -> Program:
    """The program with each element of each argument off by a few roundings of its own."""
    drawn = random.Random(draw)

    def off(argument: re.Match[str]) -> str:
        factors = [[1 + drawn.uniform(-ROUNDING, ROUNDING) for _ in range(3)] for _ in range(3)]
        return f"{argument[0]}.mul_(torch.tensor({factors}))"

    return made(re.sub(re.escape(ARGUMENT), off, text))


def values_of(seen: Observation) -> list[tuple[str, torch.Tensor]]:
    return [(path, value) for path, value in seen.facts.items() if isinstance(value, torch.Tensor)]


def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    wide = torch.complex128 if a.is_complex() else torch.float64
    far = (a.to(wide) - b.to(wide)).abs().nan_to_num(nan=math.inf)
    return far.masked_fill(torch.isclose(a, b, rtol=0, atol=0, equal_nan=True), 0.0)


def within(found: Observation, expected: Observation, spread: dict[str, Spread]) -> Observation:
    """`found` with eager's value in place of each element that roundings make another in eager too, where it is not much farther off."""
    facts = dict(found.facts)
    for path, value in values_of(expected):
        other = facts.get(path)
        if path in spread and isinstance(other, torch.Tensor) and (other.shape, other.dtype) == (value.shape, value.dtype):
            allowed = torch.where(is_another(spread[path].far, value), spread[path].allowed, 0.0)
            facts[path] = torch.where(distances(value, other) <= allowed, value, other)
    return Observation(facts, found.internal)


def is_another(far: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Which elements so far from a value the comparison takes for others."""
    if not (value.is_floating_point() or value.is_complex()):
        return far > 0
    rtol, atol = TOLERANCE
    return far > atol + rtol * value.abs().double().nan_to_num(0.0, 0.0, 0.0)


def plain(fn: Any = None, **options: Any) -> Any:
    return fn


# Where a pass differs from eager's it raises what one raises that is asked for the gradients of all arguments: docs/differences.md.
ASKED = re.compile(re.escape(SOME).replace(re.escape("{of}"), ".*"))


def check_program(text: str, backend: str) -> None:
    program = made(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [observe(program, lambda fn: dynamo.compile(fn, backend=backend))]
        expected = observe(program, plain)
        found.append(observe(program, lambda fn: dynamo.compile(fn, backend=backend)))
    dynamo.reset()
    wrong = lines(expected, found)
    if wrong:
        spread = spreads(text, expected)
        wrong = lines(expected, [within(seen, expected, spread) for seen in found])
    if wrong and (asking_all := ASKED.sub(ALL, text)) != text:
        wrong = lines(observe(made(asking_all), plain), found)
    if wrong:
        torch.set_grad_enabled(True)
        raise AssertionError(f"\n{text}\n{backend}:\n" + "\n".join(wrong))


PASS = f"""
import torch

def program(compile):
    @compile
    def f(u, v):
        p = u.detach() * v
        u.mul_(2)
        return u * 3, p

    leaves = [torch.ones(3, requires_grad=True) for _ in range(3)]
    u, v, w = (leaf * 1 for leaf in leaves)
    results = f(u, v)
    try:
        return torch.autograd.grad(sum(r.sum() for r in results), {SOME.format(of="leaves[0]")}, allow_unused=True)
    except RuntimeError as e:
        return str(e)[:50]
"""


def test_a_pass_to_some_arguments_may_raise_what_one_to_all_of_them_raises() -> None:
    assert observe(made(PASS), plain).facts["result: type"] == "tuple"
    assert "one of the variables needed" in str(observe(made(ASKED.sub(ALL, PASS)), plain).facts)
    check_program(PASS, "aot_eager")
    with pytest.raises(AssertionError, match="result"):
        check_program(PASS.replace("u.mul_(2)", "if torch.compiler.is_compiling(): raise RuntimeError('another reason')"), "aot_eager")


def lines(expected: Observation, found: list[Observation]) -> list[str]:
    return [f"run {i}: {line}" for i, seen in enumerate(found, 1) for line in differences(expected, seen, TOLERANCE)]


def test_only_elements_without_digits_may_differ() -> None:
    text = """
import torch

def program(compile):
    a = torch.randn(3, 3)
    b = torch.randn(3, 3)
    large = a * torch.tensor([1e7, 1.0, 1.0])
    return large.sin(), large.sin() > 2, (a[0, 0] / b[0, 0] * 1e8).sin().item()
"""
    expected = observe(made(text), plain)
    spread = spreads(text, expected)
    found = observe(made(text), plain)
    rows = found.facts["result[0]: values"]
    rows[:, 0] = -rows[:, 0]
    assert lines(expected, [found])
    assert not lines(expected, [within(found, expected, spread)])
    found.facts["result[2]"] += 0.5
    assert not lines(expected, [within(found, expected, spread)])
    rows[1, 1] += 0.002
    assert lines(expected, [within(found, expected, spread)])
    spread["result[0]: values"].far[1, 1] = 0.0005  # what is no other value in eager is compared as ever
    assert lines(expected, [within(found, expected, spread)])
    rows[1, 1] -= 0.002
    found.facts["result[1]: values"][2, 2] = True
    assert lines(expected, [within(found, expected, spread)])


def test_what_is_rounded_to_halves_may_be_the_neighbour() -> None:
    text = """
import torch

def program(compile):
    a = torch.randn(3, 3)
    b = torch.randn(3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        return (a @ b).float(), a + b
"""
    expected = observe(made(text), plain)
    spread = spreads(text, expected)
    found = observe(made(text), plain)
    rows = found.facts["result[0]: values"]
    rows.copy_(torch.nextafter(rows.bfloat16(), torch.full((3, 3), math.inf).bfloat16()))
    assert lines(expected, [found])
    assert not lines(expected, [within(found, expected, spread)])
    rows += 3 * (rows - expected.facts["result[0]: values"])
    assert lines(expected, [within(found, expected, spread)])
    found = observe(made(text), plain)
    found.facts["result[1]: values"] += 0.003
    assert lines(expected, [within(found, expected, spread)])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", PROGRAMS)
def test_state_programs(backend: str) -> None:
    run_programs(state_programs(), lambda text: check_program(text, backend), 0, PROGRAMS[backend])


@pytest.mark.timeout(1200)
def test_shared_arguments() -> None:
    run_programs(shared_programs(), lambda text: check_program(text, "aot_eager"), 0, 60)


@pytest.mark.timeout(1200)
def test_passes() -> None:
    run_programs(pass_programs(), lambda text: check_program(text, "aot_eager"), 0, 60)


@pytest.mark.fuzz
@pytest.mark.parametrize("backend", PROGRAMS)
def test_new_state_programs(backend: str) -> None:
    run_new_programs(state_programs(), lambda text: check_program(text, backend), 100)
