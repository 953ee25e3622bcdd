"""Inference mode around and inside compiled functions, with breaks, and tensors that cross its border."""

from __future__ import annotations

import torch
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


def grown(*shape: int) -> torch.Tensor:
    n = int(torch.tensor(shape).prod())
    return torch.linspace(-1.0, 1.0, n).reshape(shape).clone().requires_grad_()


@program("", "a block without breaks, and ordinary work after it")
def block(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            y = x * 2
        return y, x * 3, torch.is_inference_mode_enabled()

    return f(grown(3)), torch.ones(2) * 2


@program("", "a block with a print")
def block_with_print(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            y = x * 2
            print("inside")
            y = y + x
        return y, x * 3, torch.is_inference_mode_enabled()

    x = grown(3)
    out = f(x)
    out[1].sum().backward()
    return out, x, torch.ones(2) * 2


@program("", "a block with .item()")
def block_with_item(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            n = (x * 2).sum().item()
            y = x + n
        return y, x * 3

    return f(grown(3)), torch.ones(2) * 2


@program("", "a block with a branch on data")
def block_with_branch(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            if x.sum() > -1:
                y = x * 2
            else:
                y = x * 3
        return y, x * 4

    return f(grown(3)), f(grown(3)), torch.ones(2) * 2


@program("", "a decorated function with a break")
def decorated(compile):
    @compile
    @torch.inference_mode()
    def f(x):
        y = x * 2
        print("inside")
        return y + 1

    return f(grown(3)), f(grown(3)), torch.ones(2) * 2, torch.is_inference_mode_enabled()


@program("", "an inner decorated function with a break")
def decorated_inner(compile):
    @torch.inference_mode()
    def g(x):
        y = x * 2
        print("inside")
        return y.sin()

    @compile
    def f(x):
        a = x * 3
        return g(a), a * 2

    x = grown(3)
    out = f(x)
    out[1].sum().backward()
    return out, x, torch.ones(2) * 2


class _Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    @torch.inference_mode()
    def predict(self, x):
        y = self.linear(x)
        if y.sum() > 1e9:
            return y
        return y.softmax(-1)

    def forward(self, x):
        return self.linear(x)


@program("", "a method of a model that also trains")
def predict_and_train(compile):
    m = _Model()
    predict, train = compile(m.predict), compile(m)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    a = predict(x)
    b = train(x)
    b.sum().backward()
    return a, b, predict(x), m.linear.weight.grad, torch.ones(2) * 2


@program("", "a function called inside and outside of the mode")
def called_inside_and_outside(compile):
    @compile
    def f(x):
        y = x * 2
        return y.sin(), y.view(-1)

    x = grown(2, 3)
    a = f(x)
    with torch.inference_mode():
        b = f(x)
    c = f(x)
    return a, b, c


@program("", "a function with a break called under the mode")
def break_under_the_mode(compile):
    @compile
    def f(x):
        y = x * 2
        print("inside")
        return y + x, torch.is_inference_mode_enabled()

    x = grown(3)
    with torch.inference_mode():
        a = f(x)
    return a, f(x), torch.ones(2) * 2


@program("", "the mode switched off inside the mode")
def off_inside_on(compile):
    @compile
    def f(x):
        a = x * 2
        with torch.inference_mode(False):
            b = x * 3
        return a, b, x * 4

    x = grown(3)
    with torch.inference_mode():
        a, b, c = f(x)
    b.sum().backward()
    return a, b, c, x


@program("", "the mode switched off by a flag")
def flag(compile):
    @compile
    def f(x, mode):
        with torch.inference_mode(mode):
            y = x * 2
            print(mode)
            return y * x

    return f(grown(3), True), f(grown(3), False), f(grown(3), True), torch.ones(2) * 2


@program("", "inference tensors go into an ordinary graph")
def inference_tensor_as_input(compile):
    @compile
    def f(x, w):
        return x + w, x * 2

    with torch.inference_mode():
        x = torch.ones(3) * 2
    w = grown(3)
    a, b = f(x, w)
    a.sum().backward()
    return a, b, w


@program("", "an inference tensor may not be saved for backward")
def inference_tensor_saved(compile):
    @compile
    def f(x, w):
        return x * w

    with torch.inference_mode():
        x = torch.ones(3) * 2
    try:
        f(x, grown(3))
    except RuntimeError as e:
        return type(e), torch.ones(2) * 2
    return None


@program("", "an inference tensor may not be changed outside of the mode, and may be inside")
def inference_tensor_written(compile):
    @compile
    def f(x):
        x.add_(1)
        return x * 2

    with torch.inference_mode():
        x = torch.ones(3) * 2
        a = f(x)
    try:
        f(x)
        raised = None
    except RuntimeError as e:
        raised = type(e)
    return a, x, raised, torch.ones(2) * 2


@program("", "an ordinary tensor changed inside the mode")
def ordinary_tensor_written(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            x.add_(1)
            print("inside")
            x.mul_(2)
        return x * 2

    x = torch.ones(3)
    return f(x), x, x._version > 0


@program("", "an exception leaves the block, with and without a break")
def raised_inside(compile):
    @compile
    def f(x, breaks):
        with torch.inference_mode():
            y = x * 2
            if breaks:
                print("inside")
            raise ValueError("no")
        return y

    for breaks in (True, False):
        try:
            f(grown(3), breaks)
        except ValueError:
            pass
    return torch.is_inference_mode_enabled(), torch.ones(2) * 2


@program("", "an operation fails inside the block at run time")
def fails_inside(compile):
    @compile
    def f(x, i):
        with torch.inference_mode():
            return x.index_select(0, i) * 2

    out = [f(grown(3), torch.tensor([1]))]
    try:
        f(grown(3), torch.tensor([7]))
    except (IndexError, RuntimeError):
        out.append("raised")
    return out, torch.is_inference_mode_enabled(), torch.ones(2) * 2


@program("", "an operation fails inside the block behind a break")
def fails_behind_break(compile):
    @compile
    def f(x, i):
        with torch.inference_mode():
            print("inside")
            return x.index_select(0, i) * 2

    out = [f(grown(3), torch.tensor([1]))]
    try:
        f(grown(3), torch.tensor([7]))
    except (IndexError, RuntimeError):
        out.append("raised")
    return out, torch.is_inference_mode_enabled(), torch.ones(2) * 2


@program("", "the mode inside no_grad and autocast, with a break")
def nested_modes(compile):
    @compile
    def f(x):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x
            with torch.inference_mode():
                b = x @ x
                print("inside")
                c = b + a
            d = x @ x
        return a, b, c, d, x @ x

    return f(grown(3, 3)), torch.ones(2) * 2


@program("", "is_inference is read")
def is_inference(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            y = x * 2
            seen = [y.is_inference(), x.is_inference(), x.view(-1).is_inference(), torch.is_inference_mode_enabled()]
        return y.clone().is_inference(), seen, y.clone() + x

    return f(grown(3))


@program("", "a result of the mode is cloned and trained on")
def clone_and_train(compile):
    @compile
    def f(x, w):
        with torch.inference_mode():
            features = x.sin()
        return (features.clone() * w).sum()

    w = grown(3)
    loss = f(torch.ones(3), w)
    loss.backward()
    return loss, w


@program("", "views and results that share memory")
def shared_results(compile):
    @compile
    def f(x):
        with torch.inference_mode():
            y = x * 2
            return y, y[1:], y.view(-1), x[1:], x.t()

    return f(torch.linspace(-1, 1, 9).reshape(3, 3)), torch.ones(2) * 2


@program("", "a module with batch norm evaluated under the mode")
def batch_norm(compile):
    m = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).double()
    f = compile(m)
    x = torch.linspace(-1, 1, 25, dtype=torch.float64).reshape(1, 1, 5, 5)
    m.eval()
    with torch.inference_mode():
        a = f(x)
    m.train()
    b = f(x)
    b.sum().backward()
    return a, b, m[1].running_mean, m[0].weight.grad


@program("", "entered and left by hand")
def by_hand(compile):
    @compile
    def f(x):
        mode = torch.inference_mode()
        mode.__enter__()
        y = x * 2
        print("inside")
        mode.__exit__(None, None, None)
        return y, x * 3

    return f(grown(3)), torch.is_inference_mode_enabled(), torch.ones(2) * 2


@program("", "writes to views of an inference tensor are refused outside of the mode")
def writes_to_views_of_inference_tensors(compile):
    @compile
    def transposed(x):
        with torch.inference_mode():
            z = x + 1
        z.t().add_(1)
        return z

    @compile
    def row(x):
        with torch.inference_mode():
            z = x + 1
        z[0] = 3
        return z

    @compile
    def out(x):
        with torch.inference_mode():
            z = x + 1
        return torch.add(x, x, out=z[:2])

    found = []
    for f in (transposed, row, out):
        try:
            found.append(f(torch.ones(3, 3)))
        except RuntimeError as e:
            found.append(str(e))
    return found


@program("", "writes to views of normal tensors inside of the mode, and to those of inference tensors under it")
def writes_to_views_under_inference(compile):
    @compile
    def f(x, y):
        with torch.inference_mode():
            z = x + 1
            z.t().add_(y)
            z[0] = 3
            y[1] = 4
            y.view(9)[2:].mul_(2)
        return z, y

    return f(torch.arange(9.0).view(3, 3), torch.ones(3, 3))


@program("", "flags of inference tensors, switched on, read, and switched off again")
def flags_of_inference_tensors(compile):
    @compile
    def f(x):
        y = x.sin()
        y = y.detach().requires_grad_()
        z = y * 2
        seen = y.requires_grad, z.requires_grad, y.is_leaf
        y.requires_grad_(False)
        return seen, y, z

    @compile
    def g(x):
        return x * 2, x.requires_grad

    with torch.inference_mode():
        inside = f(torch.rand(3))
        x = torch.rand(3).requires_grad_()
        product = g(x)
    with torch.no_grad():
        without = g(x)
    return inside, product, without, g(x.clone()), x.requires_grad


@program("", "what is computed of an inference tensor is kept for the backward pass, and the tensor itself is refused")
def values_of_inference_tensors_kept(compile):
    def ways(x, w):
        yield lambda: w.sin() * x
        yield lambda: w.t().exp() @ x
        yield lambda: (w + 1).cos() * x.sin()
        yield lambda: w.abs().sigmoid() * x + w
        yield lambda: w * x
        yield lambda: w.t() * x

    found = []
    x = torch.linspace(-1, 1, 4).view(2, 2).requires_grad_()
    for is_inside in (False, True):
        with torch.inference_mode():
            w = torch.linspace(0, 1, 4).view(2, 2)
        for k in range(6):

            @compile
            def f(x, w, k=k):
                with torch.inference_mode(False):
                    return list(ways(x, w))[k]()

            try:
                with torch.inference_mode(is_inside):
                    y = f(x, w)
            except RuntimeError as e:
                found.append(str(e)[:30])
            else:
                found += [y, *torch.autograd.grad(y.sum(), x)]
    return found


@program("", "writes are counted where two arguments of a graph share memory, below inference mode and around it")
def counted_writes(compile):
    @compile
    def f(x):
        with torch.no_grad():
            z = x.detach()
            x.sin().detach().requires_grad_()
        z.mul_(2)
        return x.sin(), z

    @compile
    def g(x, z):
        z[1:].add_(1)
        x.mul_(2)
        return x + z

    found = []
    for mode in (torch.inference_mode, torch.no_grad):
        x, y = torch.ones(3), torch.ones(3)
        results = mode()(f)(x)[1], mode()(g)(y, y.detach())
        found.append((results, x._version, results[0]._version, y._version))
    with torch.inference_mode():
        y = torch.ones(3)
        found.append((g(y, y.detach()), y))
    try:
        g(y, y.detach())
    except RuntimeError as e:
        found.append(str(e)[:40])
    return found, y


@program("", "transforms of inference tensors in a block without inference mode")
def transformed_below(compile):
    @compile
    def f(x):
        with torch.inference_mode(False):
            return (
                torch.func.grad(lambda s: s.sin().sum())(x),
                torch.func.jacrev(torch.sin)(x),
                torch.func.hessian(lambda s: (s**3).sum())(x),
                torch.vmap(torch.func.grad_and_value(lambda s: s.cos()))(x),
                torch.func.jvp(torch.sin, (x,), (x,)),
            )

    with torch.inference_mode():
        return f(torch.linspace(0, 1, 3))


@program("", "vjp and linearize of inference tensors, in blocks with and without inference mode")
def functions_returned_by_transforms(compile):
    def pulled(x, v):
        y, pull = torch.func.vjp(lambda s, t: s.relu() * t, x, v)
        return y, *pull(v)

    def pushed(x, v):
        y, push = torch.func.linearize(lambda s: s.relu() * s, x)
        return y, push(v)

    def below(fn):
        def call(x, v):
            z = x * 1.0
            with torch.inference_mode(False):
                return fn(z, v)

        return call

    found = []
    for fn in (pulled, pushed, below(pulled), below(pushed)):
        for inference in (False, True):
            with torch.inference_mode(inference):
                try:
                    results = compile(fn)(torch.arange(3.0) - 1, torch.ones(3))
                except ValueError as e:  # torch's own in `linearize` of one result in inference mode
                    results = ()
                    found.append(str(e)[:20])
            found += [(t.clone(), t.is_inference()) for t in results]
    return found


@program("", "tangents of the mode reach functions that write, in a block without the mode")
def tangents_of_the_mode(compile):
    def pushed(x, v):
        return torch.func.jvp(lambda s: s.clone().mul_(2).clone().mul_(3), (x,), (v,))

    def ends_inside(x, w):
        v = w * 2
        print("break")
        with torch.inference_mode(False):
            return pushed(x, v)

    def ends_behind(x, w):
        v = w * 2
        print("break")
        with torch.inference_mode(False):
            y, z = pushed(x, v)
        return y, z, v.sin()

    found = []
    for fn in (ends_inside, ends_behind):
        f = torch.inference_mode()(compile(fn))
        x = torch.arange(3.0, requires_grad=True)
        results = f(x, torch.ones(3))
        (gradient,) = torch.autograd.grad([t.sum() for t in results if t.requires_grad], x)
        found.append((gradient, [(t.clone(), t.is_inference(), t.requires_grad) for t in results]))
    return found


@program("", "views made in a block without the mode have a history, below the mode and below no_grad")
def views_without_the_mode(compile):
    def alone(x):
        with torch.inference_mode(False), torch.enable_grad():
            return ((x * 2).t(),)

    def beside_their_base(x):
        with torch.inference_mode(False), torch.enable_grad():
            y = x * 2
            return y.t(), y, x.t(), *y.chunk(2)

    def made_behind(x):
        with torch.inference_mode(False), torch.enable_grad():
            y = x * 2
        return y, y.t(), x[0]

    found = []
    for fn in (alone, beside_their_base, made_behind):
        for mode in (torch.inference_mode, torch.no_grad):
            x = torch.arange(4.0).view(2, 2).requires_grad_()
            results = mode()(compile(fn))(x)
            for t in results:
                found.append((t.clone(), t.requires_grad, t.grad_fn is None, t.is_inference()))
                if t.grad_fn is not None:
                    found.append(torch.autograd.grad(t.sin().sum(), x, retain_graph=True))
    return found


@program("", "views made in the mode have no history, whatever `enable_grad` says inside")
def views_with_gradients_enabled(compile):
    def below(x):
        with torch.enable_grad():
            y = x.view(9)
        return y, y.view(3, 3), x.t()

    def in_a_block(x):
        with torch.inference_mode(), torch.enable_grad():
            y = x.view(9)
        return y, x[0], y[1:]

    def of_a_value(x):
        z = x * 2
        with torch.inference_mode(), torch.enable_grad():
            y = z.view(9)
        return y, z

    found = []
    for fn, mode in ((below, torch.inference_mode), (in_a_block, torch.enable_grad), (of_a_value, torch.enable_grad)):
        for needs in (True, False):
            f = mode()(compile(fn))
            for _ in range(2):
                results = f(grown(3, 3).detach().requires_grad_(needs))
                found.append([(t.requires_grad, t.is_leaf, t.is_inference(), t.clone()) for t in results])
    return found


@program("", "gradients in a block without the mode, in a graph that begins in the mode with gradients enabled")
def gradients_behind_a_break(compile):
    def item(x):
        with torch.enable_grad():
            n = x.sum().item()
        with torch.inference_mode(False):
            return x * 3 + n

    def printed(x):
        with torch.enable_grad():
            print("break")
            y = x * 2
        with torch.inference_mode(False):
            z = x * x
        return y, z

    found = []
    for fn in (item, printed):
        f = torch.inference_mode()(compile(fn))
        x = grown(3)
        results = f(x)
        results = results if isinstance(results, tuple) else (results,)
        found.append([(t.requires_grad, t.is_inference(), t.clone()) for t in results])
        found.append(torch.autograd.grad(results[-1].sum(), x))
    return found


@program("", "an inference tensor that needs a gradient, outside the mode: copies, casts, views, and beside other tensors")
def inference_tensors_with_gradients(compile):
    after = [
        lambda y, w: y.clone() + w,
        lambda y, w: y.to(torch.float64),
        lambda y, w: torch.dropout(y, 0.5, True),
        lambda y, w: y.view(-1) * 2,
        lambda y, w: y * w,
        lambda y, w: y.sum() * w,
    ]
    found = []
    for number, fn in enumerate(after):

        def outside(x, w, fn=fn):
            y = (x * 1.0).requires_grad_()
            with torch.inference_mode(False):
                return fn(y, w)

        def made(x, w):
            z = torch.ones(3, 3, requires_grad=True) * x
            with torch.inference_mode(False):
                y = x.flip(0)
            return y, z

        for f, needs in ((outside, False), (made, True)):
            f.__code__ = f.__code__.replace(co_name=f"{f.__name__}_{number}")
            torch.manual_seed(number)
            results = torch.inference_mode()(compile(f))(grown(3, 3).detach().requires_grad_(needs), grown(3, 3).detach())
            results = results if isinstance(results, tuple) else (results,)
            found.append([(t.requires_grad, t.is_leaf, t.is_inference(), t.detach().clone()) for t in results])
    return found


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@program("", "an autograd.Function gives a history to inference tensors, where gradients are on")
def history_from_a_function(compile):
    @compile
    def f(x):
        with torch.enable_grad():
            y = Doubled.apply(x)
        return y, y * 3

    with torch.inference_mode():
        out = f(grown(3))
    return out, [(t.requires_grad, t.is_leaf, t.is_inference()) for t in out]


@program("", "so does the block's own mode, and two results of a function")
def history_from_a_block(compile):
    @compile
    def f(x):
        with torch.inference_mode(), torch.enable_grad():
            y, z = Doubled.apply(x), Doubled.apply(x + 1)
        return y, z[0], x * 3

    out = f(grown(3))
    return out, [(t.requires_grad, t.is_leaf, t.is_inference()) for t in out]


@program("", "and a reentrant checkpoint")
def history_from_a_checkpoint(compile):
    @compile
    def f(x):
        with torch.inference_mode(), torch.enable_grad():
            return checkpoint(lambda t: t * 2, x, use_reentrant=True)

    out = f(grown(3))
    return out, out.requires_grad, out.is_leaf, out.is_inference()


@program("", "a view that autograd refuses to tell anything of, where a guard asks: no mode is left on")
def refused_view(compile):
    @compile
    def f(x):
        return x * 2 if x.is_leaf else x * 3

    @compile
    def inside(x):
        with torch.inference_mode():
            print("here")
            x.mul_(2)
            with torch.no_grad():
                print("there")
                return x * 2 if x.is_leaf else x * 3

    seen = []
    for function in (f, inside):
        for x in (grown(3), grown(2, 3).mul(1).unbind()[1]):
            if function is f and not x.is_leaf:
                with torch.inference_mode():
                    x.mul_(2)
            try:
                with torch.inference_mode(function is inside):
                    seen.append(function(x).sum())
            except RuntimeError as e:
                seen.append(str(e)[:60])
            seen += [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
    return seen
