"""Types that eager's kernels lack: the program asks, is refused and goes on with another type, or nothing reads what it asked for."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program

KINDS = (torch.bool, torch.uint8, torch.int64, torch.complex64, torch.float32)


def _tried(compile, calls, kinds=KINDS):
    """Per call and type, the result or the type of the exception, where it is returned and where nothing reads it."""

    def unread(call):
        return lambda x: (call(x), x.shape)[1]

    out = []
    for call in calls:
        for f in (compile(call), compile(unread(call))):
            for kind in kinds:
                try:
                    out.append(f(torch.tensor([[1, 0, 1], [1, 1, 0], [0, 1, 1]]).to(kind)))
                except Exception as e:  # noqa: BLE001  # compared, whatever it is
                    out.append(type(e).__name__)
    return out


@program("", "complex numbers have no order, truth values no powers and no products of matrices")
def orders(compile):
    calls = [lambda x: x < x, lambda x: x >= 1, lambda x: x.max(), lambda x: x.sort(), lambda x: x.sign(), lambda x: x.clamp_min(x)]
    calls += [lambda x: x**x, lambda x: x @ x, lambda x: torch.dist(x, torch.ones(3, 3)), lambda x: x.median(), lambda x: x.topk(1)]
    return _tried(compile, calls)


@program("", "a number beside truth values makes integers of them")
def numbers_beside_truth_values(compile):
    calls = [lambda x: 2**x, lambda x: 2.5**x, lambda x: 3 & x, lambda x: torch.remainder(5, x), lambda x: torch.fmod(x, 2)]
    calls += [lambda x: torch.bitwise_left_shift(1, x), lambda x: True**x, lambda x: True & x, lambda x: torch.xlogy(2, x), lambda x: 3 - x]
    calls += [lambda x: torch._foreach_pow(2, [x])[0]]
    return _tried(compile, calls)


@program("", "deviations of integers, bits of floats, activations and norms of what they have no kernel for")
def others(compile):
    calls = [lambda x: x.std(), lambda x: torch.var_mean(x, 0), lambda x: x & x, lambda x: torch.gcd(x, x), lambda x: F.silu(x)]
    calls += [lambda x: F.leaky_relu(x), lambda x: F.batch_norm(x, None, None, training=True), lambda x: x.floor(), lambda x: x.erf()]
    calls += [lambda x: F.adaptive_avg_pool2d(x[None], 2), lambda x: torch.fmod(x, x + 1), lambda x: x.logcumsumexp(0)]
    return _tried(compile, calls)


@program("", "lists of tensors: what is refused for one of them is refused for all")
def lists(compile):
    calls = [
        lambda x: torch._foreach_pow([x], [x]),
        lambda x: torch._foreach_sub([x], 1),
        lambda x: torch._foreach_sub([torch.ones(3), x], [True, True]),
        lambda x: torch._foreach_mul_([x], 1.5),
        lambda x: torch._foreach_maximum([x], 1j),
        lambda x: torch._foreach_clamp_min([x], True),
        lambda x: torch._foreach_norm([x]),
    ]
    return _tried(compile, calls)


@program("", "a program that goes on with another type where one is refused")
def another_type(compile):
    @compile
    def f(x):
        try:
            spread = x.std()
        except RuntimeError:
            spread = x.float().std()
        try:
            largest = x.max()
        except (RuntimeError, NotImplementedError):
            largest = x.abs().max()
        return spread, largest

    return [f(torch.arange(6).to(kind)) for kind in KINDS[1:]]


@program("", "a view beyond the memory, of an argument or of something computed, which nothing reads")
def beyond_the_memory(compile):
    calls = [
        lambda x: x.as_strided((4,), (2,), 4),
        lambda x: (x * 2).as_strided((9,), (2,)),
        lambda x: x[1].as_strided((3,), (3,), 1),
        lambda x: x[0].as_strided((2, 0), (50, 1)),
        lambda x: (x + 1)[1:].as_strided((3,), (3,)),
    ]
    return _tried(compile, calls, KINDS[2:])


@program("", "rounded division of complex numbers, steps of truth values, dilated and transposed convolutions of small integers, unread")
def kernels_of_few_types(compile):
    def tried(call):
        try:
            call()
        except (RuntimeError, NotImplementedError) as e:
            return type(e).__name__
        return "done"

    @compile
    def f(z, image, weight):
        return z.real + 1, [
            tried(lambda: torch.div(z, z, rounding_mode="floor")),
            tried(lambda: torch.div(z.real, 2j, rounding_mode="trunc")),
            tried(lambda: z.clone().div_(2, rounding_mode="floor")),
            tried(lambda: torch.div(z.real, 2, rounding_mode="nearest")),
            tried(lambda: torch.linspace(0, 1, 3, dtype=torch.bool)),
            tried(lambda: torch.linspace(0, 1j, 3, dtype=torch.float32)),
            tried(lambda: torch.linspace(0, 1j, 3)),
            tried(lambda: torch.conv2d(image, weight)),
            tried(lambda: torch.conv2d(image, weight, dilation=2)),
            tried(lambda: torch.conv_transpose2d(image, weight)),
        ]

    z, image, weight = torch.ones(2, dtype=torch.complex64), torch.ones(1, 1, 5, 5), torch.ones(1, 1, 2, 2)
    return [f(z, image.to(d), weight.to(d)) for d in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float32)]
