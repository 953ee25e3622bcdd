"""NumPy in compiled functions: arrays as results, arguments and constants, NumPy's numbers."""

from __future__ import annotations

import numpy as np
import torch

from repro_corpus.program import program


@program("", "NumPy's functions between two tensors")
def sin_of_array(compile):
    @compile
    def f(x):
        return torch.from_numpy(np.sin(x.numpy())) + 1

    return f(torch.arange(6.0).view(2, 3))


@program("", "arrays come in and go out")
def arrays_in_and_out(compile):
    @compile
    def f(a, b):
        c = np.matmul(a, b.T) + 1
        return c.sum(axis=0), np.maximum(a, b), c.shape, c.dtype

    return f(np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32))


@program("", "dtypes are NumPy's: float64 by default, integers divide to float64, bool sums are int64")
def dtypes_of_numpy(compile):
    @compile
    def f(a, i, b):
        return np.zeros(3), a * 2.5, i / 2, i // 2, b.sum(), np.arange(4), np.ones((2, 2), dtype=np.float32), a.mean(), i.mean()

    return f(np.float32([1, 2]), np.array([1, 2, 3]), np.array([True, False, True]))


@program("", "indexing and writing")
def indexing(compile):
    @compile
    def f(a):
        b = a.copy()
        b[1:, ::2] = 7
        b[0] += 1
        return b, a[a > 3], a[..., None], a[[0, 1], [1, 2]]

    return f(np.arange(12.0).reshape(3, 4))


@program("", "a write through .numpy() is seen by the tensor")
def shared_memory(compile):
    @compile
    def f(x):
        a = x.numpy()
        a += 1
        a[0] = 5
        return x * 2

    x = torch.arange(4.0)
    return f(x), x


@program("", "a result made by from_numpy shares the memory of the argument")
def from_numpy_aliases(compile):
    @compile
    def f(a):
        return torch.from_numpy(a)

    a = np.zeros(3)
    t = f(a)
    t += 1
    return t, a


@program("", "numbers of NumPy as constants of a graph")
def numpy_constants(compile):
    k, s = np.int64(3), np.float32(0.5)

    @compile
    def f(x):
        return x * k + s, x[: np.int32(2)], x.view(np.int64(2), -1), torch.full((np.int64(2),), np.float64(1.5))

    return f(torch.arange(4.0))


@program("", "numbers of NumPy as arguments, given on to the graph and given back")
def numpy_arguments(compile):
    @compile
    def f(x, n, s):
        return x * n, x + s, n, s, n + 1, s * 2

    return [f(torch.ones(3), n, s) for n, s in ((np.int64(2), np.float64(0.5)), (np.int64(3), np.float64(0.25)))]


@program("", "a NumPy number survives a break")
def numpy_number_across_break(compile):
    @compile
    def f(x, s):
        y = x * s
        print("broken")
        return y + s, s

    return f(torch.ones(3), np.float64(0.5)), f(torch.ones(3), np.float32(0.5))


@program("", "an array made before a break and used after it")
def array_across_break(compile):
    @compile
    def f(x):
        a = np.exp(x.numpy())
        print(a.shape)
        return torch.from_numpy(a + 1)

    return f(torch.zeros(3))


@program("", "numpy() of a tensor that needs a gradient raises")
def numpy_of_grad(compile):
    @compile
    def f(x):
        try:
            return x.numpy()
        except RuntimeError as e:
            return str(e)

    return f(torch.ones(2, requires_grad=True)), f(torch.ones(2))


@program("", "detach().numpy() and numpy(force=True)")
def numpy_detached(compile):
    @compile
    def f(x):
        a = x.detach().numpy() * 2
        b = (x * 3).numpy(force=True)
        return torch.as_tensor(a) + x, b

    y, b = f(x := torch.ones(2, requires_grad=True))
    y.sum().backward()
    return y, b, x.grad


@program("", "random numbers of NumPy's global generator")
def numpy_random(compile):
    @compile
    def f(x):
        return x + torch.from_numpy(np.random.rand(3)), np.random.randint(0, 10)

    np.random.seed(0)
    return f(torch.zeros(3)), f(torch.zeros(3)), np.random.rand()


@program("", "a list of arrays is stacked")
def stacking(compile):
    @compile
    def f(xs):
        return np.stack(xs), np.concatenate(xs, axis=-1), np.array([x.sum() for x in xs]), np.array(xs)

    return f([np.ones(3), np.zeros(3)])


@program("", "a scalar result of a reduction is a NumPy number")
def scalar_results(compile):
    @compile
    def f(a):
        s = a.sum()
        return s, type(s).__name__, isinstance(s, float), np.float32(s) * 2, int(a.shape[0])

    return f(np.arange(3.0))


@program("", "branches and conversions of values")
def values_of_arrays(compile):
    @compile
    def f(a):
        if a.sum() > 2:
            return a * 2, a.tolist(), float(a[0]), a.item(1)
        return a

    return f(np.arange(3.0)), f(np.zeros(3))


@program("", "einsum, linalg, where, clip, sort, argmax, percentile")
def functions(compile):
    @compile
    def f(a):
        return (
            np.einsum("ij,kj->ik", a, a),
            np.linalg.norm(a),
            np.where(a > 1, a, -a),
            np.clip(a, 0, 2),
            np.sort(a, axis=1)[:, ::-1],
            np.argmax(a, axis=0),
            np.percentile(a, 50),
            np.cumsum(a),
            np.linspace(0, 1, 3),
            np.transpose(a)[0],
        )

    return f(np.arange(6.0).reshape(2, 3) - 2)


@program("", "np.asarray and np.array of tensors")
def asarray(compile):
    @compile
    def f(x):
        return np.asarray(x) + 1, np.array(x), np.sin(x)

    return f(torch.ones(3))


@program("", "errors of NumPy are NumPy's")
def numpy_error(compile):
    @compile
    def f(a, b):
        try:
            return a @ b
        except ValueError:
            return "caught"

    return f(np.ones((2, 3)), np.ones((2, 3)))


@program("", "ndarray methods and attributes")
def ndarray_methods(compile):
    @compile
    def f(a):
        return (
            a.reshape(-1),
            a.T,
            a.astype(np.int32),
            a.ravel(),
            a.std(),
            a.var(axis=0),
            a.ndim,
            a.size,
            a.max(),
            a.min(1),
            a.flatten(),
            a.nbytes,
            a.strides,
        )

    return f(np.arange(6.0).reshape(2, 3))


@program("", "a tensor made of NumPy's numbers takes their dtype over; as operands they are numbers")
def dtypes_of_numbers(compile):
    x, i, c = torch.ones(2), torch.ones(2, dtype=torch.int32), torch.tensor([True, False])

    @compile
    def f(s):
        made = torch.tensor(s), torch.tensor([s, s]), torch.as_tensor(s), torch.asarray(s), torch.tensor((s, 1)), x.new_tensor(s)
        return made, torch.full((2,), s), x * s, i * s, torch.where(c, s, s), torch.where(c, i, s), torch.add(i, s), i == s

    @compile
    def truth(s):
        return torch.full((2,), s), x * s, i * s, torch.where(c, s, s), torch.where(c, i, s), torch.add(i, s), i == s

    return [f(t(2)) for t in (np.float64, np.float32, np.float16, np.int32, np.uint8)], truth(np.bool_(2))


@program("", "a warning of NumPy's arithmetic is given at each call")
def warning_of_number(compile):
    @compile
    def f(x, s):
        with np.errstate(divide="ignore"):
            return x + s / np.float64(0)

    return f(torch.ones(2), np.float64(1)), f(torch.ones(2), np.float64(1))
