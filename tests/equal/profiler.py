"""Profilers and named ranges around and inside compiled functions: the ranges appear, and nothing of the profiler is left behind."""

from __future__ import annotations

import torch

from repro_corpus.program import program


def ranges(profile, *names: str) -> list[tuple[str, int]]:
    """How often each of the names was recorded."""
    found = [e.key for e in profile.key_averages() for _ in range(e.count)]
    return [(n, found.count(n)) for n in names]


@program("", "a profiler around a compiled function with a break between ranges")
def around(compile):
    @compile
    def f(x):
        with torch.profiler.record_function("first"):
            y = x.sin()
        print("between")
        with torch.profiler.record_function("second"):
            return y.cos()

    x = torch.ones(3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        out = f(x)
    return out, ranges(p, "first", "second")


@program("", "a break inside a range")
def break_in_range(compile):
    @compile
    def f(x):
        with torch.profiler.record_function("whole"):
            y = x.sin()
            print("inside")
            y = y.cos()
        return y + 1

    x = torch.ones(3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        out = f(x)
    return out, f(x), ranges(p, "whole")


@program("", "a range without a profiler, then with one")
def range_before_profiler(compile):
    @compile
    def f(x):
        with torch.profiler.record_function("part"):
            y = x.sin()
            print("inside")
        return y.cos()

    x = torch.ones(3)
    a = f(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        b = f(x)
    return a, b, f(x), ranges(p, "part")


@program("", "a profiler entered and left inside the function, with a range around a break")
def inside(compile):
    @compile
    def f(x):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
            with torch.profiler.record_function("range"):
                y = x.sin()
                print("inside")
                y = y.cos()
        return y, p

    y, p = f(torch.ones(3))
    z, q = f(torch.ones(3))
    return y, z, ranges(p, "range"), ranges(q, "range"), torch.autograd._profiler_enabled()


@program("", "the older profiler inside the function, with a break")
def autograd_profiler(compile):
    @compile
    def f(x):
        with torch.autograd.profiler.profile() as p, torch.autograd.profiler.record_function("range"):
            y = x.sin()
            print("inside")
            y = y.cos()
        return y, p

    y, p = f(torch.ones(3))
    return y, ranges(p, "range"), torch.autograd._profiler_enabled()


@program("", "a profiler with steps")
def steps(compile):
    @compile
    def f(x):
        with torch.profiler.record_function("part"):
            return x.sin() * 2

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)
    ) as p:
        out = []
        for _ in range(4):
            out.append(f(torch.ones(3)))
            p.step()
    return out, torch.autograd._profiler_enabled()


@program("", "an exception inside a range of a profiled function")
def raises(compile):
    @compile
    def f(x):
        with torch.profiler.record_function("part"):
            y = x.sin()
            print("inside")
            raise ValueError("no")
        return y

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        try:
            f(torch.ones(3))
        except ValueError:
            pass
    return ranges(p, "part"), torch.autograd._profiler_enabled()


@program("", "a function decorated with a range")
def decorated(compile):
    @torch.profiler.record_function("whole")
    def g(x):
        y = x.sin()
        print("inside")
        return y.cos()

    @compile
    def f(x):
        return g(x) + 1

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        out = f(torch.ones(3))
    return out, f(torch.ones(3)), ranges(p, "whole")


@program("", "a step of an optimizer under a profiler")
def optimizer_step(compile):
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([w], lr=0.1)

    @compile
    def step():
        optimizer.step()

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        (w * w).sum().backward()
        step()
    step()
    return w, ranges(p, "Optimizer.step#SGD.step")


@program("", "is a profiler on, asked inside")
def asked(compile):
    @compile
    def f(x):
        if torch.autograd._profiler_enabled():
            return x + 1
        return x - 1

    x = torch.ones(3)
    a = f(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        b = f(x)
    return a, b, f(x)


@program("", "emit_nvtx and itt are left alone; a range entered by hand")
def by_hand(compile):
    @compile
    def f(x):
        r = torch.profiler.record_function("hand")
        r.__enter__()
        y = x.sin()
        print("inside")
        r.__exit__(None, None, None)
        return y

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        out = f(torch.ones(3))
    return out, f(torch.ones(3)), ranges(p, "hand")
