"""Reductions as Triton does them: the state of a lane, how two states become one, and the results. One row each."""

from __future__ import annotations

from dataclasses import dataclass

from inductor.ir.types import TYPES
from inductor.targets.triton.ops import TRITON_TYPES


@dataclass(frozen=True)
class Reduction:
    """`state`: (type, neutral value) of every part. `lift` makes a state of value {x} at position {p}; results are made of {0}, {1}, ...

    `step` takes one more value into all of the state but its last part, the number of values. A loop knows that number.
    """

    state: tuple[tuple[str, str], ...]
    lift: tuple[str, ...]
    combine: str
    results: tuple[str, ...]
    step: str = ""

    @property
    def carried(self) -> tuple[tuple[str, str], ...]:
        """The parts that a lane keeps in a loop."""
        return self.state[:-1] if self.step else self.state


_BITS = {"i64": 63, "i32": 31, "i16": 15, "i8": 7}


def lowest(type_name: str) -> str:
    if TYPES[type_name].kind == "float":
        return 'float("-inf")'
    return str(-(2 ** _BITS[type_name])) if type_name in _BITS else "0"


def highest(type_name: str) -> str:
    if TYPES[type_name].kind == "float":
        return 'float("inf")'
    return str(2 ** _BITS[type_name] - 1) if type_name in _BITS else "255" if type_name == "u8" else "1"


def reduction(kind: str, type_name: str) -> Reduction:
    """The row of a kind over operands of one type."""
    t, is_float = TRITON_TYPES[type_name], TYPES[type_name].kind == "float"
    widened = "tl.int32" if type_name == "bool" else t  # shuffles move whole registers

    def simple(neutral: str, combine: str, result: str = "{0}") -> Reduction:
        lift = "{x}.to(tl.int32)" if type_name == "bool" else "{x}"
        return Reduction(((widened, neutral),), (lift,), combine, ("({0} != 0)" if type_name == "bool" else result,))

    rows = {
        "sum": lambda: simple("0", "add"),
        "prod": lambda: simple("1", "mul"),
        "max": lambda: simple(lowest(type_name), "most" if is_float else "largest"),
        "min": lambda: simple(highest(type_name), "least" if is_float else "smallest"),
        "any": lambda: simple("0", "either"),
        "all": lambda: simple("1", "both"),
        "argmax": lambda: Reduction(
            ((t, lowest(type_name)), ("tl.int32", "2147483647")), ("{x}", "{p}"), "first_most", ("{1}.to(tl.int64)",)
        ),
        "argmin": lambda: Reduction(
            ((t, highest(type_name)), ("tl.int32", "2147483647")), ("{x}", "{p}"), "first_least", ("{1}.to(tl.int64)",)
        ),
        "welford": lambda: Reduction(
            ((t, "0"), (t, "0"), (t, "0")), ("{x}", "{z}", "{o}"), "merge_moments", ("{0}", "{1}"), step="next_moments"
        ),
        "online_softmax": lambda: Reduction(
            ((t, 'float("-inf")'), (t, "0")),
            ("{x}", "{o}"),
            "merge_wide_sums" if type_name == "f64" else "merge_sums",
            ("{0}", 'tl.where(tl.abs({0}) == float("inf"), float("nan"), {1})'),
        ),
    }
    return rows[kind]()


SCAN_COMBINE = {"sum": "add", "prod": "mul"}
