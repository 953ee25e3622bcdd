"""The kinds of programs: one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hypothesis.strategies import SearchStrategy

from minifier.fuzz.draw import scripts
from minifier.fuzz.draw.module_programs import module_programs
from minifier.fuzz.draw.operator_programs import operator_programs
from minifier.fuzz.draw.python_programs import programs as python_programs
from minifier.fuzz.draw.state_programs import state_programs
from minifier.fuzz.draw.tensor_programs import programs as tensor_programs

Words = frozenset[str]


@dataclass(frozen=True)
class Kind:
    """`strategy` gives texts that define `program(compile)`, of the named operators only where any are and the kind `takes_ops`.

    `share` is how many of a round of programs are of this kind. `in_turn` gives, instead, the strategy of the n-th program.
    """

    name: str
    doc: str
    strategy: Callable[[Words], SearchStrategy[str]] | None
    share: int
    takes_ops: bool = False
    in_turn: Callable[[int], SearchStrategy[str]] | None = None


def _tensors(ops: Words) -> SearchStrategy[str]:
    return tensor_programs(ops).map(scripts.of_tensors)


def _operators(turn: int) -> SearchStrategy[str]:
    return operator_programs(turn).map(scripts.of_tensors)


def _any_ops(strategy: Callable[[], SearchStrategy[str]], ops: Words) -> SearchStrategy[str]:
    return strategy()


def _capture() -> SearchStrategy[str]:
    return python_programs().map(scripts.of_python)


KINDS: dict[str, Kind] = {
    k.name: k
    for k in (
        Kind("operators", "each operator in turn, in small programs", None, 6, in_turn=_operators),
        Kind("tensors", "operators over tensors of all dtypes and layouts, with gradients", _tensors, 3, takes_ops=True),
        Kind("modules", "layers of torch.nn in training and evaluation", partial(_any_ops, module_programs), 1),
        Kind("capture", "Python around tensors: control flow, containers, closures, exceptions", partial(_any_ops, _capture), 1),
        Kind("calls", "sequences of calls with modes, attributes, seeds and layouts that change", partial(_any_ops, state_programs), 1),
    )
}
