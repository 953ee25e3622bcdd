"""The kinds of random programs: how each is drawn, checked, and how large its part of a long run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from minifier.fuzz.draw import python_programs, tensor_programs
from minifier.fuzz.draw.state_programs import state_programs
from tests.generator import test_programs, test_state_programs
from tests.inductor import test_random_programs


@dataclass(frozen=True)
class Family:
    """`check` raises where compiled code differs from eager. `share` is the part of a run, out of the sum of all."""

    strategy: Callable[[], SearchStrategy[Any]]
    check: Callable[[Any], None]
    share: int


def _state(backend: str, share: int) -> Family:
    return Family(state_programs, lambda text: test_state_programs.check_program(text, backend), share)


FAMILIES: dict[str, Family] = {
    "python": Family(python_programs.programs, test_programs.check_program, 5),
    "tensors": Family(tensor_programs.programs, test_random_programs.check, 1),
    "state-eager": _state("eager", 2),
    "state-aot": _state("aot_eager", 2),
    "state-inductor": _state("inductor", 1),
}
