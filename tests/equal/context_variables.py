"""`contextvars` inside compiled functions: read, set, put back, and left changed."""

from __future__ import annotations

import contextvars

import torch

from repro_corpus.program import program

SCALE = contextvars.ContextVar("scale", default=2)
UNSET = contextvars.ContextVar("unset")


@program("", "a context variable is read anew on every call")
def read_between_calls(compile):
    @compile(fullgraph=True)
    def f(x):
        return x * SCALE.get()

    token = SCALE.set(3)
    first = f(torch.ones(2))
    SCALE.reset(token)
    return first, f(torch.ones(2)), SCALE.get()


@program("", "a context variable set and reset inside is as before afterwards, also when the block raises")
def set_and_reset(compile):
    @compile
    def f(x, fails):
        token = SCALE.set(SCALE.get() + 1)
        try:
            if fails:
                raise ValueError("no")
            return x * SCALE.get()
        finally:
            SCALE.reset(token)

    seen = [f(torch.ones(2), False), SCALE.get()]
    try:
        f(torch.ones(2), True)
    except ValueError as e:
        seen.append(str(e))
    return *seen, SCALE.get()


@program("", "a context variable that the function leaves set is set for its caller")
def left_set(compile):
    @compile(fullgraph=True)
    def f(x):
        SCALE.set(7)
        return x + SCALE.get()

    def run():
        return f(torch.ones(2)), SCALE.get(), f(torch.zeros(2)), SCALE.get()

    return contextvars.copy_context().run(run), SCALE.get()


@program("", "a context variable without a value raises LookupError, and a default given to get counts")
def without_value(compile):
    @compile(fullgraph=True)
    def f(x):
        try:
            return x + UNSET.get()
        except LookupError:
            return x - UNSET.get(5)

    def run():
        UNSET.set(1)
        return f(torch.ones(2))

    return f(torch.ones(2)), contextvars.copy_context().run(run), f(torch.ones(2))


@program("", "a token in use at a graph break")
def token_across_a_break(compile):
    @compile
    def f(x):
        token = SCALE.set(4)
        y = x * SCALE.get()
        print("here", SCALE.get())
        y = y + SCALE.get()
        SCALE.reset(token)
        return y * SCALE.get()

    return f(torch.ones(2)), SCALE.get()


@program("", "a default given to get counts before the variable's own")
def two_defaults(compile):
    @compile(fullgraph=True)
    def f(x):
        return x * SCALE.get(10)

    def run():
        SCALE.set(3)
        return f(torch.ones(2))

    return f(torch.ones(2)), contextvars.copy_context().run(run), f(torch.ones(2))
