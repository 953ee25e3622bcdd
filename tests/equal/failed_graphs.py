"""Programs that catch an error of an operator: tensors written before it have the values, and the history, of one write."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any

import torch
import torch.nn.functional as F

from repro_corpus.program import Compile, program


def gradients(results: tuple[Any, ...], *leaves: torch.Tensor) -> list[Any]:
    found: list[Any] = []
    for result in results:
        found.append(torch.autograd.grad(result.sum(), leaves, retain_graph=True, allow_unused=True) if result.requires_grad else None)
    return [r.detach() for r in results] + found + [r.requires_grad for r in results] + [r._version for r in results]


@program("", "a write of what has a history, before an error that is caught, is differentiated once")
def written_before_an_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, singular: torch.Tensor) -> Any:
        y = x * 1.0
        print("break")
        try:
            y.mul_(3)
            singular = torch.linalg.inv(singular)
        except RuntimeError:
            y = y.sin()
        return y, singular

    x = torch.arange(4.0).view(2, 2).requires_grad_()
    return [gradients(f(x, s), x) for s in (torch.zeros(2, 2), torch.eye(2))]


@program("", "the same through a view, beside what it is a view of")
def written_through_a_view_before_an_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, singular: torch.Tensor) -> Any:
        y = x * 1.0
        row = y[0]
        print("break")
        try:
            row.mul_(3)
            torch.linalg.inv(singular)
        except RuntimeError:
            row.add_(1)
            y.mul_(x)
        return y, row

    x = torch.arange(4.0).view(2, 2).requires_grad_()
    return [gradients(f(x, s), x) for s in (torch.zeros(2, 2), torch.eye(2))]


@program("", "the same where the base alone is read afterwards, and where another view of it is written")
def written_through_one_of_two_views_before_an_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, singular: torch.Tensor) -> Any:
        y = x * 2
        first, second = y[0], y[:, 1]
        print("break")
        try:
            first.mul_(3)
            second.mul_(x[0])
            torch.linalg.cholesky(singular)
        except RuntimeError:
            second.cos_()
        return y, first, second

    x = torch.arange(4.0).view(2, 2).requires_grad_()
    return [gradients(f(x, s), x) for s in (-torch.eye(2), torch.eye(2))]


@program("", "a leaf that gets its history from the write has none after the error but the one of the program's own write")
def history_from_the_write_before_an_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, plain: torch.Tensor, singular: torch.Tensor) -> Any:
        try:
            plain.mul_(x)
            torch.linalg.inv(singular)
        except RuntimeError:
            plain.add_(1)
        return (plain,)

    x = torch.arange(4.0).view(2, 2).requires_grad_()
    return [gradients(f(x, torch.full((2, 2), 2.0), s), x) for s in (torch.zeros(2, 2), torch.eye(2))]


@program("", "a write that the error comes before leaves what autograd has kept as it is")
def kept_before_an_error(compile: Compile) -> Any:
    @compile
    def f(y: torch.Tensor, singular: torch.Tensor) -> Any:
        try:
            z = y * y
            inverse = torch.linalg.inv(singular)
            y.mul_(3)
        except RuntimeError:
            inverse = singular
        return y, z, inverse

    x = torch.arange(4.0).view(2, 2).requires_grad_()
    return gradients(f(x * 1.0, torch.zeros(2, 2)), x)


@program("", "an argument of the caller's, with a history, and the backward pass after the error was caught by the caller")
def caught_by_the_caller(compile: Compile) -> Any:
    @compile
    def f(y: torch.Tensor, singular: torch.Tensor) -> Any:
        y.mul_(3)
        return torch.linalg.inv(singular) + y

    x = torch.arange(4.0).view(2, 2).requires_grad_()
    y = x.sin()
    try:
        f(y, torch.zeros(2, 2))
    except RuntimeError as e:
        return type(e).__name__, gradients((y,), x)
    return None


@program("", "a warning before an operator whose error is caught is given once")
def warned_before_an_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, singular: torch.Tensor) -> Any:
        warnings.warn("begins", stacklevel=1)
        y = F.softmax(x)
        try:
            y = y @ torch.linalg.inv(singular)
        except RuntimeError:
            warnings.warn("fails", stacklevel=2)
        return y

    return [f(torch.ones(2, 2), s) for s in (torch.zeros(2, 2), torch.eye(2), torch.zeros(2, 2))]


@program("", "a gradient that was read and dropped before an error is still there when plain Python begins anew")
def gradient_dropped_before_an_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, singular: torch.Tensor) -> Any:
        g = x.grad
        x.grad = None
        try:
            return x * 2, torch.linalg.inv(singular), g
        except RuntimeError:
            return x * 3, g

    out = []
    for s in (torch.zeros(2, 2), torch.eye(2), torch.zeros(2, 2)):
        x = torch.ones(2, requires_grad=True)
        x.grad = torch.ones(2)
        out.append((f(x, s), x.grad))
    return out


@program("", "a write to an argument, beside one to a part of what overlaps itself, before an error that is caught")
def written_beside_what_overlaps_itself(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, z: torch.Tensor, singular: torch.Tensor) -> Any:
        z[:, 0] += 1
        x += x
        try:
            return torch.linalg.inv(singular), x * 2
        except RuntimeError:
            return x.sin(), z * 2

    out: list[Any] = []
    for make in (lambda m: m.expand(3, 4), lambda m: m[1:].expand(2, 4), lambda m: m.view(-1).as_strided((2, 2), (1, 1))):
        for s in (torch.zeros(2, 2), torch.eye(2), torch.zeros(2, 2)):
            x, m = torch.arange(4.0), torch.arange(3.0).view(3, 1)
            out.append((f(x, make(m), s), x, m))
    return out


@program("", "the same below inference mode, where a graph may have written to any of its inputs, and this one reads what overlaps itself")
def written_beside_an_expanded_inference_tensor(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, z: torch.Tensor, singular: torch.Tensor) -> Any:
        x += z.sum(0)
        try:
            return torch.linalg.inv(singular), x * 2
        except RuntimeError:
            return x.sin(), z * 2

    with torch.inference_mode():
        out: list[Any] = []
        for s in (torch.zeros(2, 2), torch.eye(2), torch.zeros(2, 2)):
            x, z = torch.arange(4.0), torch.arange(4.0).expand(3, 4)
            out.append((f(x, z, s), x.clone(), z.clone()))
    return out


@program("", "the same before checks: a class out of range, a branch that raises")
def warned_before_checks(compile: Compile) -> Any:
    @compile
    def hot(i: torch.Tensor) -> Any:
        warnings.warn("hot", stacklevel=1)
        try:
            return F.one_hot(i, 3)
        except RuntimeError:
            return None

    @compile
    def branch(x: torch.Tensor) -> Any:
        warnings.warn("branch", stacklevel=1)
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    def caught(x: torch.Tensor) -> Any:
        try:
            return branch(x)
        except ValueError as e:
            return str(e)

    return [hot(torch.tensor([n])) for n in (1, 5, 2)], [caught(torch.ones(2) * n) for n in (1, -1, 2)]


@program("", "a function that counts frames, beside an error that is caught")
def frames_are_counted(compile: Compile) -> Any:
    def name_of(depth: int) -> str:
        return sys._getframe(depth).f_code.co_name

    @compile
    def f(x: torch.Tensor, singular: torch.Tensor) -> Any:
        try:
            return x @ torch.linalg.inv(singular)
        except RuntimeError:
            return name_of(1), name_of(2)

    def caller(s: torch.Tensor) -> Any:
        return f(torch.ones(2, 2), s)

    return [caller(s) for s in (torch.zeros(2, 2), torch.eye(2), torch.zeros(2, 2))]


@program("", "a tensor that keeps its gradient is written before an error, whole, and a part of it")
def written_with_a_kept_gradient_before_an_error(compile: Compile) -> Any:
    @compile
    def f(y: torch.Tensor, singular: torch.Tensor, part: bool) -> Any:
        try:
            if part:
                y[0].mul_(3)
            else:
                y[:] = y.flip(0) * 2
            z = y * 5 + torch.linalg.cholesky(singular)
        except RuntimeError as e:
            return y * 7, type(e).__name__
        return z, ""

    seen: list[Any] = []
    for singular in (-torch.eye(2), torch.eye(2)):
        for part in (False, True):
            x = torch.arange(4.0).view(2, 2).requires_grad_()
            y = x + 1
            y.retain_grad()
            z, name = f(y, singular, part)
            (z * z).sum().backward()
            seen += [name, y.detach(), z.detach(), x.grad, y.grad]
    return seen


@program("", "the gradient that is kept is that of what was written last, also on a later call")
def kept_gradients_of_written_arguments(compile: Compile) -> Any:
    @compile
    def f(y: torch.Tensor) -> torch.Tensor:
        y.mul_(3)
        return y * 2

    @compile
    def through_a_view(y: torch.Tensor) -> torch.Tensor:
        y.t()[0].add_(y[1].clone().sin())
        return y.cos()

    @compile
    def by_item(y: torch.Tensor) -> torch.Tensor:
        y[1] = y[0] * 2
        return y.exp()

    seen: list[Any] = []
    for fn in (f, through_a_view, by_item):
        for keeps in (False, True, False):
            x = torch.arange(4.0).view(2, 2).requires_grad_()
            y = x + 1
            if keeps:
                y.retain_grad()
            (fn(y) ** 2).sum().backward()
            seen += [x.grad, y.detach(), y.grad if keeps else None]
    return seen


@program("", "graphs that can't be made functional, where a mode is on at the operator that says so")
def refused_below_a_mode(compile):
    def beyond(x):
        y = (x * 2)[1]
        with torch.inference_mode():
            y.as_strided((2,), (1,), 0).add_(1)
        return y

    def of_rows(x):
        z = torch.func.jacrev(lambda s: s * 2)(x)[1, 0]
        with torch.inference_mode():
            z.as_strided((2,), (1,), 4).add_(1)
        return z

    def without_gradients(x):
        y = (x * 2)[1]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            y.as_strided((2,), (1,), 0).add_(1)
        return y

    def in_the_mode(x):
        y = (x * 2)[1]
        with torch.inference_mode(False):
            (x * 3)[1].as_strided((2,), (1,), 0).add_(1)
        return y

    found = []
    for fn in (beyond, of_rows, without_gradients, in_the_mode):
        for mode in (contextlib.nullcontext, torch.no_grad, torch.inference_mode):
            with mode():
                found.append(compile(fn)(torch.arange(9.0).view(3, 3).requires_grad_()))
            found.append((torch.ones(2) * 2, torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
    return found


@program("", "a write through `.data`, which no version counts, before an assertion that fails")
def write_to_data_is_undone(compile):
    @compile
    def f(m, x):
        m.weight.data.mul_(2)
        assert m(x).sum() < 0
        return x

    m = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.ones_(m.weight)
    with contextlib.suppress(AssertionError):
        f(m, torch.ones(2))
    return m.weight, f(m, -torch.ones(2)), m.weight


@program("", "writes through `.data`, to parts and in lists, to what the function closes over too, before an index out of range")
def writes_to_parts_of_data_are_undone(compile):
    held = torch.ones(3)

    @compile
    def f(x, i):
        held.data[0] += 1
        x.data.view(-1)[1:].add_(1)
        torch._foreach_mul_([x.data[0], held.data], 3)
        return x.index_select(0, i) + held

    x = torch.ones(2, 3)
    with contextlib.suppress(IndexError, RuntimeError):
        f(x, torch.tensor([5]))
    return x, held


@program("", "an argument that got another shape in place before the graph failed")
def turned_before_it_fails(compile):
    @compile
    def f(x, change):
        y = x * 2
        try:
            if change == "transposed":
                x.t_()
            elif change == "written":
                x.mul_(3).t_()
            else:
                x.unsqueeze_(0)
            y = torch.linalg.inv(x * 0)
        except RuntimeError:
            y = y + 1
        return y, x.shape, x.stride(), x + 1

    found = []
    for change in ("transposed", "written", "a dim more"):
        for needs in (False, True):
            leaf = torch.arange(9.0).view(3, 3).requires_grad_(needs)
            x = leaf * 1
            out = f(x, change)
            if needs:
                (out[0].sum() + (out[3] * out[3]).sum()).backward()
            found.append((change, out, x, x.shape, x.stride(), leaf.grad))
    return found


@program("", "a graph that may have written to an inference tensor, which overlaps itself, fails in a block without inference mode")
def inference_tensor_beside_a_write(compile: Compile) -> Any:
    @compile
    def f(z, x):
        print("resumes behind a break")
        with torch.inference_mode(False):
            y = z * 2
            x += x
            try:
                z = torch.linalg.cholesky(-torch.eye(3)) + y
            except RuntimeError:
                x = x + 1
        return x * 1, z

    x = torch.ones(3, 3)
    with torch.inference_mode():
        results = f(torch.ones(3, 1).expand(3, 3), x)
    return x, [r.clone() for r in results], torch.is_inference_mode_enabled()
