"""Planted faults of memory are found, each in the form that it was planted in, and kernels as they are have none."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.inductor.sanitizer.planting import RULES, Planted, Subject, checked, subjects_of
from tests.inductor.sanitizer.subjects import NAMES, graphs_of

FEW = {  # some of every rule, in kernels that run fast
    "pad": ("dropped mask", "dropped mask of a store", "mask one element too wide", "programs on the same rows", "overlapping programs"),
    "index_add": ("missing atomic", "index out of range, and no check", "index out of range, and not clamped"),
    "softmax": ("missing barrier between stages",),
    "even length": ("a program too many",),
    "short rows": ("loop too long",),
    "transpose": ("store one element further", "load one element earlier", "pointer one element further", "pointer one element earlier"),
    "bias": ("load with a wrong stride", "store with a wrong stride", "wrong stride of a store", "a program too few"),
    "row sum": ("one iteration too many", "iterations that store one element", "wrong stride of a load", "memory of the wrong size"),
    "rms norm": ("stages in the wrong order", "load one element further"),
    "where": ("dropped mask of a load", "store one element further"),
}
EACH = 2  # faults of a rule in a kernel
MOST = 12  # kernels of a program: equal layers tell nothing more


def faults(subject: Subject, rules: tuple[str, ...]) -> list[Planted]:
    return [one for kind in rules for one in islice(RULES[kind](subject), EACH)]


def missed(name: str, rules: tuple[str, ...]) -> tuple[Counter[str], list[str], int]:
    """(how many faults were planted by rule, those that were not found, kernels) of a program; kernels as they are have none."""
    planted: Counter[str] = Counter()
    missing, kernels = [], 0
    for gm, values in graphs_of(name):
        for subject in subjects_of(gm, values):
            kernels += 1
            assert checked(subject) == [], f"a false alarm in {subject.kernel.name} of {name}"
            for one in faults(subject, rules) if kernels <= MOST else ():
                planted[one.kind] += 1
                found = [f for f in checked(subject, one) if f.form == one.form]
                if not found or {f.kernel for f in found} != {subject.kernel.name}:
                    missing.append(f"{one.kind} in {subject.kernel.name} of {name}: {found}")
    return planted, missing, kernels


@pytest.mark.parametrize("name", FEW)
def test_planted_faults_are_found(name: str) -> None:
    planted, missing, _ = missed(name, FEW[name])
    assert missing == []
    assert set(planted) == set(FEW[name])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_planted_faults_are_found() -> None:
    planted: Counter[str] = Counter()
    missing, kernels = [], 0
    for name in NAMES:
        more, lost, count = missed(name, tuple(RULES))
        planted += more
        missing += lost
        kernels += count
    print(f"{planted.total()} faults by {len(planted)} rules in {kernels} kernels")
    assert missing == []
    assert planted.total() >= 200 and kernels >= 200, (planted, kernels)
    assert set(planted) == set(RULES)
