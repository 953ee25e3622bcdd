"""When a compiled graph raises, the frame is run again from its beginning as plain Python: errors are then those of the program.

A graph runs all operators of a frame before any of the frame's effects on Python objects is replayed, and a compiled graph writes to its
inputs only once nothing in it can fail any more. So when it raises, nothing has happened yet, and the original code can start over: it
raises what eager raises, where eager does, with what was written before; an `except` of the program catches it. The entry hands over by
`Tail(rescue, ...)`, which costs a call that does not fail nothing.

Random numbers that the graph has drawn are drawn again from the state the entry started with. Graphs that write to tensors of the
caller as they go (backends that run the captured graph itself) get the old values back first.

If plain Python raises nothing at all, the failure was the compiler's own: the result is right, and the error is counted.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from dynamo import _C, config, internal_errors
from dynamo.fake.overlap import overlaps_itself
from dynamo.ops.facts import acts, can_run_again, is_random, may_raise
from dynamo.skipped import user_place
from dynamo.surroundings.saving import is_of_hook, raised_again
from dynamo.surroundings.signals import let_through

# Attribute of what a backend returns: it has written to none of its inputs when it raises.
KEEPS_INPUTS = "keeps_inputs_on_error"
# Attribute of an error: the program is not run again for it. A device notes an index out of range when it gets there, maybe in a later
# call, and eager's kernels would answer the same index by making the device unusable.
IS_FINAL = "is_final"
# Message of the checks that stand for branches whose other side raises: see dynamo/symbolic/interp/refusals.py.
TAKES_OTHER_SIDE = "a branch that raises is taken"


class Generators:
    """Torch's default generator and those of the program that a graph holds: their states before a run, put back for another one."""

    def __init__(self, held: Iterable[Any]) -> None:
        self.every = (torch.default_generator, *(g for g in held if isinstance(g, torch.Generator)))

    def states(self) -> list[torch.Tensor]:
        return [g.get_state() for g in self.every]

    def put_back(self, states: list[torch.Tensor]) -> None:
        for generator, state in zip(self.every, states, strict=True):
            generator.set_state(state)


class Rescue:
    """Runs the original code of an entry. Called as (error, states of the generators or None, *frame inputs)."""

    def __init__(self, code: types.CodeType, globals: dict[str, Any], compile_id: str, generators: Generators) -> None:
        self.code, self.globals, self.compile_id, self.generators = code, globals, compile_id, generators

    def __call__(self, error: Exception, random_states: list[torch.Tensor] | None, *inputs: Any) -> Any:
        let_through(error)
        if hasattr(error, IS_FINAL):
            raise error
        if is_of_hook(error):
            if not self.code.co_exceptiontable:
                raise error
            return _C.Tail(_C.disabled_call, (*plain_call(self.code, self.globals, inputs), raised_again(error)))
        if random_states is not None:
            self.generators.put_back(random_states)
        watch = Watch()

        def then(returned: bool) -> None:
            watch.end()
            if returned and not watch.raised and TAKES_OTHER_SIDE not in str(error):
                if not config.suppress_errors:
                    internal_errors.raising(error)
                    raise error
                code = self.code
                place = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
                internal_errors.report("DD095", error, place, self.compile_id, *user_place())

        fn, args, kwargs = plain_call(self.code, self.globals, inputs)
        watch.begin()
        # The program counts frames (`stacklevel`, `sys._getframe`), so that none of ours may stand below it.
        return _C.Tail(_C.disabled_call, (fn, args, kwargs, then))


def plain_call(
    code: types.CodeType, globals: dict[str, Any], inputs: tuple[Any, ...]
) -> tuple[types.FunctionType, tuple[Any, ...], dict[str, Any]]:
    """From frame inputs (argument slots in CPython's order, then closure cells) back to a function and its arguments."""
    cells = inputs[len(inputs) - len(code.co_freevars) :]
    return types.FunctionType(code, globals, code.co_name, None, cells), *called_with(code, inputs)


def called_with(code: types.CodeType, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call that gives a frame of `code` these inputs."""
    npos, nkw = code.co_argcount, code.co_kwonlyargcount
    star, double_star = bool(code.co_flags & inspect.CO_VARARGS), bool(code.co_flags & inspect.CO_VARKEYWORDS)
    at = npos + nkw
    args = (*inputs[:npos], *(inputs[at] if star else ()))
    keywords = zip(code.co_varnames[npos:at], inputs[npos:at], strict=True)
    return args, dict(keywords) | (inputs[at + star] if double_star else {})


# What operators raise: others are how Python ends its loops and looks for attributes.
_OF_OPERATORS = (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError, AssertionError)


class Watch:
    """Notes whether any Python frame sees an exception that an operator may have raised, also one that is caught there."""

    def __init__(self) -> None:
        self.raised = False

    def begin(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self._note)

    def end(self) -> None:
        sys.settrace(self.before)

    def _note(self, frame: types.FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        frame.f_trace_lines = False
        if event == "exception" and issubclass(arg[0], _OF_OPERATORS):
            self.raised = True
        return self._note


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or all elements between its first and its last where some of its own share memory: nothing can be copied onto these."""
    shape, strides = tensor.shape, tensor.stride()
    if not overlaps_itself(shape, strides):
        return tensor
    return tensor.as_strided((1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)),), (1,))


def _layout(tensor: torch.Tensor) -> tuple[torch.Size, tuple[int, ...], int]:
    return tensor.shape, tensor.stride(), int(tensor.storage_offset())


class Old:
    """What a tensor was before a graph: its values, their layout, and how autograd got them. A view has the history of what it is a view
    of."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        base = tensor._base if tensor._is_view() else None
        self.owner = tensor if base is None else base
        self.grad_fn = self.owner.grad_fn
        self.layout = _layout(tensor)
        self.values = _memory(tensor.detach()).clone()
        with torch.enable_grad():
            self.history = self.owner.clone() if self.owner.grad_fn is not None else None

    def put_back(self) -> None:
        """Make the tensor what it was. A block that switches its inference mode off may be open."""
        with torch.inference_mode() if self.tensor.is_inference() else nullcontext():
            self._put_back()

    def _put_back(self) -> None:
        """A write in grad mode has become part of the history, which begins anew at a copy of the old value."""
        if _layout(self.tensor) != self.layout:
            with torch.no_grad():
                self.tensor.as_strided_(*self.layout)
        if self.owner.grad_fn is not self.grad_fn:  # that of a view is made anew after any write, also one that autograd did not see
            if not self.owner.retains_grad:  # the hook that keeps a gradient moves with each write, and needs a history to move from
                self.owner.detach_()
            if self.history is not None:
                with torch.enable_grad():
                    self.owner.copy_(self.history)
        _memory(self.tensor.detach()).copy_(self.values)


def undoing(graph_fn: Callable[..., Any], positions: Sequence[int], held: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """A graph that gives tensors their old values, histories and versions back when it raises: arguments at `positions`, and tensors it
    holds."""

    def run(*args: Any) -> Any:
        kept = [Old(t) for t in (*(args[i] for i in positions), *held)]
        counts = torch.autograd._unsafe_preserve_version_counter(tuple(old.tensor for old in kept if not old.tensor.is_inference()))
        try:
            return graph_fn(*args)
        except Exception as error:
            if is_of_hook(error):
                raise  # the program is not run again
            with counts:
                for old in kept:
                    old.put_back()
            for old in kept:
                _ = old.tensor.grad_fn  # a view notes which version its history is of
            raise

    return run


def draws(ran: Iterable[Any]) -> bool:
    """Do operators that ran while tracing take random numbers?"""
    return any(map(is_random, ran))


def can_fail(ran: Iterable[Any]) -> bool:
    """May one of the operators that ran while tracing refuse values?"""
    return any(may_raise(op) for op in ran)


def can_start_over(ran: Iterable[Any]) -> bool:
    return all(can_run_again(op) for op in ran if acts(op))
