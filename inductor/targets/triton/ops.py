"""How Triton writes the pointwise operations and the element types of the loop IR: one row each.

Results are those of eager's kernels: division and square root are rounded correctly, and functions are libdevice's, since Triton's own
`/`, `exp` and others are approximations. Where all that is made of a value is rounded to a 16-bit type, the second form does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Template = str | Mapping[str, str]  # one template, or one per operand type with "" as the default


@dataclass(frozen=True)
class TritonOp:
    """In templates {0}.. are operands, {t} is the type of the operands. `fast` is for values that end in 16-bit types."""

    template: Template
    fast: str = ""

    def for_operand(self, type_name: str, *, is_fast: bool) -> str | None:
        if is_fast and self.fast and type_name == "f32":
            return self.fast
        return self.template if isinstance(self.template, str) else self.template.get(type_name, self.template.get(""))


def _device(name: str, arity: int = 1, fast: str = "") -> TritonOp:
    call = f"libdevice.{name}({', '.join(f'{{{i}}}' for i in range(arity))})"
    return TritonOp({"f32": call, "f64": call}, fast)


def _infix(symbol: str) -> TritonOp:
    return TritonOp(f"({{0}} {symbol} {{1}})")


def _extreme(name: str, symbol: str) -> TritonOp:
    nan = f"tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)"
    return TritonOp({"": f"tl.where({{0}} {symbol} {{1}}, {{0}}, {{1}})", "f32": nan, "f64": nan})


def _assembly(name: str, text: str) -> str:
    """A helper that is one instruction of float32."""
    call = f'tl.inline_asm_elementwise("{text}", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)'
    return f"def {name}(x):\n    return {call}\n"


TRITON_OPS: dict[str, TritonOp] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "fma": TritonOp("tl.fma({0}, {1}, {2})"),
    "div": TritonOp({"f32": "tl.div_rn({0}, {1})", "f64": "({0} / {1})"}, "({0} / {1})"),
    "neg": TritonOp({"": "(0 - {0})", "f32": "({0} * -1.0)", "f64": "({0} * -1.0)"}),  # Triton's minus gives 0.0 for 0.0
    "abs": TritonOp({"": "tl.abs({0})", "u8": "{0}"}),
    "max": _extreme("maximum", ">"),
    "min": _extreme("minimum", "<"),
    "eq": _infix("=="),
    "ne": _infix("!="),
    "lt": _infix("<"),
    "le": _infix("<="),
    "gt": _infix(">"),
    "ge": _infix(">="),
    "and": _infix("&"),
    "or": _infix("|"),
    "xor": _infix("^"),
    "not": TritonOp("(~{0})"),
    "where": TritonOp("tl.where({0}, {1}, {2})"),
    "isnan": TritonOp("({0} != {0})"),
    "isinf": TritonOp('(tl.abs({0}) == float("inf"))'),
    "signbit": TritonOp({"f32": "({0}.to(tl.int32, bitcast=True) < 0)", "f64": "({0}.to(tl.int64, bitcast=True) < 0)"}),
    "sqrt": TritonOp({"f32": "tl.sqrt_rn({0})", "f64": "libdevice.sqrt({0})"}, "tl.sqrt({0})"),
    "floor": TritonOp("tl.floor({0})"),
    "ceil": TritonOp("tl.ceil({0})"),
    "trunc": _device("trunc"),
    "round": _device("nearbyint"),
    "copysign": _device("copysign", 2),
    "fmod": _device("fmod", 2),
    "remainder": TritonOp("remainder({0}, {1})"),
    "floordiv": TritonOp({"f32": "floordiv_f32({0}, {1})", "f64": "floordiv_f64({0}, {1})"}),
    "nextafter": _device("nextafter", 2),
    "hypot": _device("hypot", 2),
    "atan2": _device("atan2", 2),
    "pow": _device("pow", 2),
    "exp": _device("exp", fast="ex2({0} * 1.4426950408889634)"),
    "exp2": _device("exp2", fast="ex2({0})"),
    "expm1": _device("expm1"),
    "log": _device("log", fast="tl.log({0})"),
    "log2": _device("log2", fast="tl.log2({0})"),
    "log10": _device("log10"),
    "log1p": _device("log1p"),
    "sin": _device("sin"),
    "cos": _device("cos"),
    "tan": _device("tan"),
    "asin": _device("asin"),
    "acos": _device("acos"),
    "atan": _device("atan"),
    "sinh": _device("sinh"),
    "cosh": _device("cosh"),
    "tanh": TritonOp({"f32": "tanh({0})", "f64": "libdevice.tanh({0})"}, "fast_tanh({0})"),
    "asinh": _device("asinh"),
    "acosh": _device("acosh"),
    "atanh": _device("atanh"),
    "erf": TritonOp({"f32": "erf({0})", "f64": "libdevice.erf({0})"}, "fast_erf({0})"),
    "erfc": _device("erfc"),
    "lgamma": _device("lgamma"),
    "philox": TritonOp("philox({0}, {1}, {2}, {3})"),
}

TRITON_TYPES: dict[str, str] = {
    "f64": "tl.float64",
    "f32": "tl.float32",
    "bf16": "tl.bfloat16",
    "f16": "tl.float16",
    "i64": "tl.int64",
    "i32": "tl.int32",
    "i16": "tl.int16",
    "i8": "tl.int8",
    "u8": "tl.uint8",
    "bool": "tl.int1",
}

# Functions that templates and reductions call, each with those that it calls itself.
HELPERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "remainder": (
        """def remainder(a, b):
    m = libdevice.fmod(a, b)
    return tl.where((m != 0) & ((b < 0) != (m < 0)), m + b, m)
""",
        (),
    ),
    "floored": (
        """def floored(a, b, q, m, d):
    # q: a / b, m: fmod(a, b), d: (a - m) / b, all correctly rounded
    d = tl.where((m != 0) & ((b < 0) != (m < 0)), d - 1.0, d)
    f = tl.floor(d)
    f = tl.where(d - f > 0.5, f + 1.0, f)
    f = tl.where(d == 0, libdevice.copysign(d * 0.0, q), f)
    return tl.where(b == 0, q, f)
""",
        (),
    ),
    "floordiv_f32": (
        """def floordiv_f32(a, b):
    m = libdevice.fmod(a, b)
    return floored(a, b, tl.div_rn(a, b), m, tl.div_rn(a - m, b))
""",
        ("floored",),
    ),
    "floordiv_f64": (
        """def floordiv_f64(a, b):
    m = libdevice.fmod(a, b)
    return floored(a, b, a / b, m, (a - m) / b)
""",
        ("floored",),
    ),
    "ex2": (_assembly("ex2", "ex2.approx.ftz.f32 $0, $1;"), ()),
    "rcp": (_assembly("rcp", "rcp.approx.ftz.f32 $0, $1;"), ()),
    "fetched": (
        """def fetched(p):
    # read into registers: what else is read in a loop of products is staged in shared memory
    return tl.inline_asm_elementwise("ld.global.nc.f32 $0, [$1];", "=f,l", [p.to(tl.int64)], dtype=tl.float32, is_pure=True, pack=1)
""",
        (),
    ),
    "round_bf16": (
        """def round_bf16(x):
    # to bfloat16 and back, two values at once
    return tl.inline_asm_elementwise(
        "{ .reg .b32 t; cvt.rn.bf16x2.f32 t, $3, $2; shl.b32 $0, t, 16; and.b32 $1, t, 0xffff0000; }",
        "=r,=r,r,r", [x], dtype=tl.float32, is_pure=True, pack=2)
""",
        (),
    ),
    "tanh": (
        """def tanh(x):
    # to the bit what libdevice and eager have: a polynomial of x * x, or 1 - 2 / (1 + exp(2 |x|))
    s = x * x
    p = tl.fma(s, 0.0157396831, -0.0523039624)
    p = tl.fma(p, s, 0.133152977)
    p = tl.fma(p, s, -0.333327681)
    p = tl.fma(p * s, x, x)
    y = libdevice.copysign(tl.fma(rcp(1.0 + ex2(tl.abs(x) * 2.8853900817779268)), -2.0, 1.0), x)
    return tl.where(tl.abs(x) < 0.6, p, y)
""",
        ("ex2", "rcp"),
    ),
    "erf": (
        """def erf(x):
    # to the bit what libdevice and eager have, without a branch: a polynomial of x * x, or 1 - exp2 of one of |x|
    s, t = x * x, tl.abs(x)
    p = tl.fma(s, 8.48349446e-05, -0.000821309164)
    p = tl.fma(p, s, 0.00521348882)
    p = tl.fma(p, s, -0.0268687736)
    p = tl.fma(p, s, 0.112840049)
    p = tl.fma(p, s, -0.376126647)
    p = tl.fma(p, s, 0.128379151)
    p = tl.fma(p, x, x)
    q = tl.fma(t, 0.000112198715, -0.00132752524)
    q = tl.fma(q, t, 0.00839653518)
    q = tl.fma(q, t, -0.0402465835)
    q = tl.fma(q, t, 0.159504309)
    q = tl.fma(q, t, 0.912917674)
    q = tl.fma(q, t, 0.62906003)
    y = libdevice.copysign(1.0 - ex2(tl.fma(q, t * -1.0, t * -1.0)), x)
    return tl.where(t >= 1.00295997, y, p)
""",
        ("ex2",),
    ),
    "fast_tanh": (
        """def fast_tanh(x):
    # 1 - 2 / (1 + exp(2 x)), within 2e-7; x itself where that is nearer
    y = tl.fma(rcp(1.0 + ex2(x * 2.8853900817779268)), -2.0, 1.0)
    return tl.where(tl.abs(x) < 0.02, x, y)
""",
        ("ex2", "rcp"),
    ),
    "tanh_and_one": (
        """def tanh_and_one(x):
    # 1 + tanh(x) = 2 / (1 + exp(-2 x))
    return rcp(0.5 + ex2(tl.fma(x, -2.8853900817779268, -1.0)))
""",
        ("ex2", "rcp"),
    ),
    "normal_tail": (
        """def normal_tail(t):
    # 2 Phi(-t) = 2 ^ p(t) for 0 <= t, within 7e-7, and within a thousandth of itself up to 4; 0 behind 14
    t = tl.minimum(t, 14.0, propagate_nan=tl.PropagateNan.ALL)
    p = tl.fma(t, 2.37625445e-05, -0.000686430198)
    p = tl.fma(p, t, 0.00781272165)
    p = tl.fma(p, t, -0.0530190878)
    p = tl.fma(p, t, -0.459034681)
    p = tl.fma(p, t, -1.15112936)
    return ex2(tl.fma(p, t, 8.94069672e-07))
""",
        ("ex2",),
    ),
    "erf_and_one": (
        """def erf_and_one(x):
    # 1 + erf(x / sqrt(2)) = 2 Phi(x)
    q = normal_tail(tl.abs(x))
    return tl.where(x < 0, q, 2.0 - q)
""",
        ("normal_tail",),
    ),
    "fast_erf": (
        """def fast_erf(x):
    # 1 - 2 Phi(-sqrt(2) |x|); its slope at 0 where that is nearer
    y = libdevice.copysign(1.0 - normal_tail(tl.abs(x) * 1.4142135623730951), x)
    return tl.where(tl.abs(x) < 0.02, x * 1.1283791670955126, y)
""",
        ("normal_tail",),
    ),
    "words": (
        """def words(seed, counter, thread):
    # Philox4x32-10: four words of 32 bits, in the order of curand's. One product of 64 bits is one instruction, its halves are three.
    x, y, z = counter.to(tl.uint32), (counter >> 32).to(tl.uint32), (thread + counter * 0).to(tl.uint32)
    w, first, second = x * 0, seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        a, b = x.to(tl.uint64) * 0xD2511F53, z.to(tl.uint64) * 0xCD9E8D57
        x, z = (b >> 32).to(tl.uint32) ^ y ^ first, (a >> 32).to(tl.uint32) ^ w ^ second
        y, w, first, second = b.to(tl.uint32), a.to(tl.uint32), first + 0x9E3779B9, second + 0xBB67AE85
    return x, y, z, w
""",
        (),
    ),
    "uniform": (
        """def uniform(word):
    # in (0, 1]
    return word.to(tl.uint32, bitcast=True).to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10
""",
        (),
    ),
    "philox": (
        """def philox(seed, counter, thread, lane):
    x, y, z, w = words(seed, counter, thread)
    return uniform(tl.where(lane < 2, tl.where(lane == 0, x, y), tl.where(lane == 2, z, w)))
""",
        ("words", "uniform"),
    ),
    "four_words": (
        """def four_words(seed, counter, thread):
    # the words of neighbours, side by side in a new last axis of two by two
    x, y, z, w = words(seed, counter, thread)
    return tl.join(tl.join(x, z), tl.join(y, w))
""",
        ("words",),
    ),
    "add": ("def add(a, b):\n    return a + b\n", ()),
    "add_two": ("def add_two(a, b, c, d):\n    return a + c, b + d\n", ()),
    "mul": ("def mul(a, b):\n    return a * b\n", ()),
    "either": ("def either(a, b):\n    return a | b\n", ()),
    "both": ("def both(a, b):\n    return a & b\n", ()),
    "most": ("def most(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n", ()),
    "least": ("def least(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n", ()),
    "largest": ("def largest(a, b):\n    return tl.maximum(a, b)\n", ()),
    "smallest": ("def smallest(a, b):\n    return tl.minimum(a, b)\n", ()),
    "first_most": (
        """def first_most(a, i, b, j):
    # NaN is more than everything; of equals the first
    same = (a == b) | ((a != a) & (b != b))
    take = ((a > b) | ((a != a) & (b == b))) | (same & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)
""",
        (),
    ),
    "first_least": (
        """def first_least(a, i, b, j):
    same = (a == b) | ((a != a) & (b != b))
    take = ((a < b) | ((a != a) & (b == b))) | (same & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)
""",
        (),
    ),
    "merge_moments": (
        """def merge_moments(mean, squares, count, mean2, squares2, count2):
    n = count + count2
    share = tl.where(n == 0, 0.0, count2 / tl.where(n == 0, 1.0, n))
    d = mean2 - mean
    return mean + d * share, squares + squares2 + d * (d * (count * share)), n
""",
        (),
    ),
    "next_moments": (
        """def next_moments(mean, squares, x, n):
    # x is the n-th value of every lane
    d = x - mean
    mean = tl.fma(d, 1.0 / n, mean)
    return mean, tl.fma(d, x - mean, squares)
""",
        (),
    ),
    "take_in_sums": (
        """def take_in_sums(m, s, t):
    # eight more values of every lane: one comparison with the maximum so far, one power per value
    h = most(m, tl.reduce(t, 2, most))
    base = tl.where(h == float("-inf"), 0.0, h)
    e = ex2((t - base[:, :, None]) * 1.4426950408889634)
    return h, s * ex2((m - base) * 1.4426950408889634) + tl.reduce(e, 2, add)
""",
        ("most", "add", "ex2"),
    ),
    "take_in_moments": (
        """def take_in_moments(mean, squares, count, t):
    # eight more values of every lane: their own moments first
    m = tl.reduce(t, 2, add) * 0.125
    d = t - m[:, :, None]
    n = count + 8.0
    share, far = 8.0 * rcp(n), m - mean
    return mean + far * share, squares + tl.reduce(d * d, 2, add) + far * (far * (count * share)), n
""",
        ("add", "rcp"),
    ),
    "take_in_wide_moments": (
        """def take_in_wide_moments(mean, squares, count, t):
    # the same in float64
    m = tl.reduce(t, 2, add) * 0.125
    d = t - m[:, :, None]
    n = count + 8.0
    share, far = 8.0 / n, m - mean
    return mean + far * share, squares + tl.reduce(d * d, 2, add) + far * (far * (count * share)), n
""",
        ("add",),
    ),
    "take_in_some_moments": (
        """def take_in_some_moments(mean, squares, count, t, ones):
    # the same of those that are there
    c = tl.reduce(ones, 2, add)
    m = tl.reduce(t, 2, add) / tl.maximum(c, 1.0)
    d = (t - m[:, :, None]) * ones
    return merge_moments(mean, squares, count, m, tl.reduce(d * d, 2, add), c)
""",
        ("add", "merge_moments"),
    ),
    "end_sums": (
        """def end_sums(m, s):
    # of all lanes: the maximum, then the sums as multiples of its power
    h = tl.reduce(m, 1, most, keep_dims=True)
    base = tl.where(h == float("-inf"), 0.0, h)
    return h, tl.reduce(s * ex2((m - base) * 1.4426950408889634), 1, add, keep_dims=True)
""",
        ("most", "add", "ex2"),
    ),
    "end_moments": (
        """def end_moments(mean, squares, count):
    # of all lanes: the mean, then how far each is from it
    m = tl.reduce(mean * count, 1, add, keep_dims=True) / tl.reduce(count, 1, add, keep_dims=True)
    d = mean - m
    return m, tl.reduce(squares + d * (d * count), 1, add, keep_dims=True)
""",
        ("add",),
    ),
    "take_in_most": (
        """def take_in_most(m, k, t, at):
    # eight more values of every lane, and where those began among which the largest so far is
    h = tl.reduce(t, 2, most)
    k = tl.where((h > m) | ((h != h) & (m == m)), at, k)
    return most(m, h), k
""",
        ("most",),
    ),
    "take_in_least": (
        """def take_in_least(m, k, t, at):
    h = tl.reduce(t, 2, least)
    k = tl.where((h < m) | ((h != h) & (m == m)), at, k)
    return least(m, h), k
""",
        ("least",),
    ),
    "take_in_largest": (
        """def take_in_largest(m, k, t, at):
    h = tl.reduce(t, 2, largest)
    return largest(m, h), tl.where(h > m, at, k)
""",
        ("largest",),
    ),
    "take_in_smallest": (
        """def take_in_smallest(m, k, t, at):
    h = tl.reduce(t, 2, smallest)
    return smallest(m, h), tl.where(h < m, at, k)
""",
        ("smallest",),
    ),
    "merge_sums": (
        """def merge_sums(m, s, m2, s2):
    h = tl.maximum(m, m2, propagate_nan=tl.PropagateNan.ALL)
    a = tl.where(m == h, s, s * ex2((m - h) * 1.4426950408889634))
    b = tl.where(m2 == h, s2, s2 * ex2((m2 - h) * 1.4426950408889634))
    return h, a + b
""",
        ("ex2",),
    ),
    "merge_wide_sums": (
        """def merge_wide_sums(m, s, m2, s2):
    h = tl.maximum(m, m2, propagate_nan=tl.PropagateNan.ALL)
    a = tl.where(m == h, s, s * libdevice.exp(m - h))
    b = tl.where(m2 == h, s2, s2 * libdevice.exp(m2 - h))
    return h, a + b
""",
        (),
    ),
}


def with_helpers(names: list[str]) -> list[str]:
    """Names of helpers with those they call, callees first."""
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys([*with_helpers(list(HELPERS[name][1])), name]))
    return list(found)
