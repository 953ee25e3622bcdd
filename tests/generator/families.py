"""The kinds of random programs: how each is drawn, checked, and how large its part of a long run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from minifier.fuzz.draw import python_programs, tensor_programs
from minifier.fuzz.draw.pass_programs import pass_programs
from minifier.fuzz.draw.shared_arguments import shared_programs
from minifier.fuzz.draw.state_programs import state_programs
from tests.generator import test_programs, test_state_programs
from tests.inductor import test_random_programs


@dataclass(frozen=True)
class Family:
    """`check` raises where compiled code differs from eager. `share` is the part of a run, out of the sum of all."""

    strategy: Callable[[], SearchStrategy[Any]]
    check: Callable[[Any], None]
    share: int


def _with_state(strategy: Callable[[], SearchStrategy[str]], backend: str, share: int) -> Family:
    return Family(strategy, lambda text: test_state_programs.check_program(text, backend), share)


FAMILIES: dict[str, Family] = {
    "python": Family(python_programs.programs, test_programs.check_program, 5),
    "tensors": Family(tensor_programs.programs, test_random_programs.check, 1),
    "state-eager": _with_state(state_programs, "eager", 2),
    "state-aot": _with_state(state_programs, "aot_eager", 2),
    "state-inductor": _with_state(state_programs, "inductor", 1),
    "shared-aot": _with_state(shared_programs, "aot_eager", 2),
    "passes-aot": _with_state(pass_programs, "aot_eager", 2),
}
