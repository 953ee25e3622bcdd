"""Planted faults of memory are found, each in the form that it was planted in, and kernels as they are have none."""

from __future__ import annotations

from collections import Counter

import pytest
from torch.testing._internal.common_methods_invocations import op_db

from tests.inductor import sweep
from tests.inductor.sanitizer.counting import alarms, missed
from tests.inductor.sanitizer.planting import RULES
from tests.inductor.sanitizer.subjects import NAMES

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

CHUNKS = 16  # operators are dealt out to this many tests, for xdist to share


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
    assert planted.total() >= 200, planted
    assert set(planted) == set(RULES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_kernels_of_operators_have_no_faults(chunk: int) -> None:
    told = []
    with sweep.samples_unseeded():
        for op in op_db[chunk::CHUNKS]:
            told += alarms(op)[1]
    assert told == []
