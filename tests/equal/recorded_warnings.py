"""Functions that look at the warnings which they, and what they call, have given by then."""

from __future__ import annotations

import logging
import warnings

import torch
import torch.nn.functional as F

from repro_corpus.program import program


@program("", "how many there are decides")
def counted(compile):
    @compile
    def f(x):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            before = len(log)
            warnings.warn("one", stacklevel=1)
            between = len(log)
            warnings.warn("two", DeprecationWarning, stacklevel=1)
            if log:
                x = x * len(log)
            for w in log:
                x = x + len(str(w.message))
        return x, before, between, [(str(w.message), w.category.__name__) for w in log]

    return f(torch.ones(2)), f(torch.zeros(2))


@program("", "those of operators")
def of_operators(compile):
    @compile
    def f(x):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            loss = F.mse_loss(x, torch.ones(1, 3))
            n = len(log)
        return loss * n, n

    return f(torch.ones(3)), f(torch.zeros(3))


@program("", "the caller records, and the list is reached another way")
def recorded_outside(compile):
    held = {}

    class Owner:
        log: list

    owner = Owner()

    def said():
        warnings.warn("said", stacklevel=1)

    @compile
    def by_argument(x, log):
        said()
        return x * len(log)

    @compile
    def by_table(x):
        said()
        return x * len(held["log"]), bool(held["log"])

    @compile
    def by_attribute(x):
        n = len(owner.log)
        said()
        return x * n, len(owner.log)

    @compile
    def emptied(x, log):
        said()
        log.clear()
        said()
        return x + 1

    results = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            held["log"] = owner.log = log
            x = torch.ones(2)
            results += [by_argument(x, log), by_table(x), by_attribute(x), emptied(x, log), len(log)]
    return results


@program("", "recorded by the second caller only")
def recorded_later(compile):
    log = []

    @compile
    def f(x, log):
        warnings.warn("said", stacklevel=1)
        return x * (len(log) + 1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = f(torch.ones(2), log)
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        second = f(torch.ones(2), log)
    return first, second


@program("", "a function of the program is told")
def told(compile):
    seen = []

    def show(message, category, filename, lineno, file=None, line=None):
        seen.append(str(message))

    @compile
    def f(x):
        warnings.warn("said", stacklevel=1)
        return x * len(seen)

    @compile
    def replacing(x):
        warnings.showwarning = show
        warnings.warn("said", stacklevel=1)
        return x * len(seen)

    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        results.append(replacing(torch.ones(2)))
        for _ in range(2):
            results.append(f(torch.ones(2)))
    return results, seen


@program("", "a frame that can't see them has no break: also where logging gets them")
def unseen(compile):
    @compile(fullgraph=True)
    def f(x):
        warnings.warn("said", stacklevel=1)
        return x * 2

    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        results = [f(torch.ones(2)), len(log)]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.getLogger("py.warnings").addHandler(logging.NullHandler())
        logging.captureWarnings(True)
        try:
            results.append(f(torch.ones(2)))
        finally:
            logging.captureWarnings(False)
    return results
