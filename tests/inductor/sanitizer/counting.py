"""What is planted into the kernels of a program, and what of it is missed."""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from itertools import islice

from tests.inductor.sanitizer.planting import RULES, Planted, Subject, checked, subjects_of
from tests.inductor.sanitizer.subjects import graphs_of

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
