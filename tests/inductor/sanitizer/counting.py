"""What is planted into the kernels of a program, and what of it is missed."""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from itertools import islice
from typing import Any

import torch

import dynamo
from tests.inductor import sweep
from tests.inductor.sanitizer.planting import RULES, Planted, Subject, checked, subjects_of
from tests.inductor.sanitizer.subjects import Taken, graphs_of

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


def counted(name: str) -> tuple[str, Counter[str], list[str], int, float]:
    """(name, planted by rule, missed, kernels, seconds) of a program with all rules; an error is something missed."""
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            planted, missing, kernels = missed(name, tuple(RULES))
    except Exception as error:  # noqa: BLE001  the next program may tell more
        lines = traceback.format_exc().splitlines()[-3:]
        return name, Counter(), [f"{name}: {type(error).__name__}: {error} {lines}"], 0, time.perf_counter() - began
    return name, planted, missing, kernels, time.perf_counter() - began


def alarms(op: Any) -> tuple[int, list[str]]:
    """(kernels, faults told) of an operator of torch's test database on its first sample of float32, with its gradient."""
    if not op.supports_dtype(torch.float32, "cpu"):
        return 0, []
    case, taken = sweep.draw(op, torch.float32, count=1), Taken()
    with sweep.quiet():
        outcome = case.expected()
        if isinstance(outcome, Exception):
            return 0, []
        found = dynamo.compile(sweep.program(op), backend=taken.backend)(sweep.copied(case.samples))
        ends = [t for t in sweep.tensors_in(found) if t.requires_grad and t.layout is torch.strided]
        if ends:
            torch.autograd.backward(ends, [torch.ones_like(e) for e in ends])
    dynamo.reset()
    kernels, told = 0, []
    for gm, values in taken.graphs:
        for subject in subjects_of(gm, values):
            kernels += 1
            told += [f"{sweep.name_of(op)}: {fault}" for fault in checked(subject)]
    return kernels, told
