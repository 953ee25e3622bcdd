"""Fuel that refuses single decisions, and the search for the one that makes numbers wrong."""

from __future__ import annotations

import pytest

from dynamo.decisions import FuelError, decide, limited, parse
from minifier.bisect.fuel import Search


def taken(fuel: str, count: int = 8) -> list[int]:
    with limited(fuel):
        return [n for n in range(1, count + 1) if decide("fuse" if n % 2 else "inline", f"step {n}")]


@pytest.mark.parametrize(
    ("fuel", "numbers"),
    [
        ("all", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("0", []),
        ("3", [1, 2, 3]),
        ("#3", [1, 2, 4, 5, 6, 7, 8]),
        ("#3,#5", [1, 2, 4, 6, 7, 8]),
        ("#3-6", [1, 2, 7, 8]),
        ("5,#2-3", [1, 4, 5]),
        ("-fuse,#2", [4, 6, 8]),
        ("fuse:1", [1, 2, 4, 6, 8]),
    ],
)
def test_fuel_refuses_what_it_says(fuel: str, numbers: list[int]) -> None:
    assert taken(fuel) == numbers


@pytest.mark.parametrize("text", ["#", "#x", "#3-", "#-3", "3-4", "fuse:x"])
def test_fuel_that_cannot_be_read_names_the_entry(text: str) -> None:
    with pytest.raises(FuelError, match=text.replace("-", r"\-")):
        parse(text)


class Compiler:
    """Asks for decisions; `culprits` are those that make numbers wrong when taken, each on its own unless `together`."""

    def __init__(self, culprits: set[int], count: int = 100, together: bool = False) -> None:
        self.culprits, self.count, self.together, self.compiles = culprits, count, together, 0

    def __call__(self) -> bool:
        self.compiles += 1
        wrong = {n for n in range(1, self.count + 1) if decide("fuse", f"step {n}") and n in self.culprits}
        return wrong == self.culprits if self.together else bool(wrong)


@pytest.mark.parametrize("culprit", [1, 2, 37, 99, 100])
def test_one_culprit_is_found_in_logarithmically_many_compiles(culprit: int) -> None:
    compiler = Compiler({culprit})
    found = Search(compiler).run()

    assert found is not None
    assert (found.names, found.switch, found.verified) == ((f"fuse {culprit}: step {culprit}",), f"#{culprit}", True)
    assert compiler.compiles <= 13


def test_culprits_of_their_own_are_all_found() -> None:
    found = Search(Compiler({12, 13, 80})).run()

    assert found is not None
    assert (found.switch, found.verified) == ("#12,#13,#80", True)


def test_of_two_that_are_wrong_together_one_is_enough() -> None:
    found = Search(Compiler({12, 80}, together=True)).run()

    assert found is not None
    assert (found.switch, found.verified) == ("#80", True)


def test_wrong_whatever_is_decided_has_no_culprit() -> None:
    assert Search(lambda: decide("fuse", "step") or True).run() is None


def test_right_whatever_is_decided_has_no_culprit() -> None:
    assert Search(Compiler(set(), together=False)).run() is None
