"""Numbers, strings, None, and the builtins on them. All of it happens while tracing and leaves no node."""

from __future__ import annotations

import pytest

from tests.capture.language import Case


def _number(name: str, expression: str, argument: str = "7") -> Case:
    """An expression over one Python argument `n`, used as a factor; it must not reach the graph."""
    return Case(name, f"import math\ndef f(x, n): return x * ({expression})", [f"t(3), {argument}", f"t(3), {argument}"], ["mul"])


NUMBERS = [
    _number("integer arithmetic", "n + 2 * n - n // 3 + n % 4 + n ** 2"),
    _number("true division", "n / 2"),
    _number("bit operators", "(n & 3) | (n ^ 5) << 2 >> 1 | ~n"),
    _number("unary operators", "-n + +n - ~n"),
    _number("negative floor division and modulo", "-n // 2 + -n % 3"),
    _number("divmod", "divmod(n, 3)[0] + divmod(n, 3)[1]"),
    _number("pow with modulus", "pow(n, 3, 5) + pow(2, n)"),
    _number("abs and round", "abs(-n) + round(n / 3, 2) + round(2.5)"),
    _number("int conversions", "int('12') + int(3.9) + int(True) + int('ff', 16)"),
    _number("float conversions", "float('1.5') + float(n)"),
    _number("bool arithmetic", "True + (n > 3) + bool(n)"),
    _number("float argument", "n * 2 + n // 1", "2.5"),
    _number("float methods", "int(n.is_integer()) + n.as_integer_ratio()[1]", "2.5"),
    _number("int methods", "n.bit_length() + (n).__index__()"),
    _number("bool argument", "3 if n else 4", "True"),
    _number("None argument", "1 if n is None else 2", "None"),
    _number("math functions", "math.sqrt(n) + math.floor(2.7) + math.ceil(2.1) + math.log2(8) + math.prod([2, 3])"),
    _number("math constants and tests", "math.pi if math.isfinite(n) and not math.isnan(n) else math.inf"),
    _number("gcd and comb", "math.gcd(12, n * 2) + math.comb(5, 2) + math.factorial(4)"),
    _number("comparison chain", "1 if 0 < n <= 7 != 8 else 2"),
    _number("is and is not", "1 if n is not None and n is n else 2"),
    _number("in a tuple", "5 if n in (1, 7) else 6"),
    _number("infinity and nan", "0 if float('nan') == float('nan') else float('inf') > n"),
    _number("large integers", "(n ** 40) % 1000"),
    _number("min and max of mixed numbers", "max(n, 2.5) + min(n, 2)"),
    _number("hash of a number", "hash(n) % 5"),
    _number("type checks", "1 if isinstance(n, int) and not isinstance(n, bool) and type(n) == int else 2"),
    _number("hex, oct, bin, chr, ord", "len(hex(n) + oct(n) + bin(n)) + ord(chr(n + 60))"),
    Case("complex numbers", "def f(x, c): return x * c.real + c.imag + abs(c)", ["t(3), 3+4j", "t(3), 3+4j"], ["mul add add"]),
    Case(
        "number with tensor both ways",
        "def f(x, n): return n + x - (n - x) * (n / x)",
        inputs=["t(3), 2", "t(3), 2"],
        graphs=["add sub truediv mul sub"],
    ),
    Case("another int recompiles", "def f(x, n): return x * n", ["t(3), 2", "t(3), 3"], ["mul"], compiles=2),
    Case(
        "int and float of one value differ",
        "def f(x, n): return x * n",
        inputs=["t(3, dtype=torch.int64), 2", "t(3, dtype=torch.int64), 2.0"],
        graphs=["mul"],
        compiles=2,
    ),
    Case("True and 1 differ", "def f(x, n): return x * 2 if n is True else x + 1", ["t(3), True", "t(3), 1"], ["mul", "add"], compiles=2),
    Case(
        "0.0 and -0.0 differ",
        """
        import math
        def f(x, n): return x + math.copysign(1.0, n)
        """,
        inputs=["t(3), 0.0", "t(3), -0.0"],
        graphs=["add"],
        compiles=2,
    ),
    Case("nan equals itself", "def f(x, n): return x * n", ["t(3), float('nan')", "t(3), float('nan')"], ["mul"]),
    Case("returned numbers", "def f(x, n): return n + 1, x + n, n / 2, n > 2, None", ["t(3), 2", "t(3), 2"], ["add"]),
    Case("shape arithmetic", "def f(x): return x.view(x.shape[0] // 2, -1) + x.numel() % 5", ["t(4, 3)", "t(4, 3)"], ["view add"]),
]


def _text(name: str, expression: str, argument: str = "'Ab c'") -> Case:
    """An expression over one str argument `s`; its value is returned beside a tensor operation."""
    return Case(name, f"def f(x, s): return x + 1, {expression}", [f"t(3), {argument}", f"t(3), {argument}"], ["add"])


STRINGS = [
    _text("concatenation and repetition", "s + '!' * 3"),
    _text("indexing and slicing", "s[0] + s[::-1] + s[1:3]"),
    _text("case methods", "s.upper() + s.lower() + s.title() + s.swapcase() + s.capitalize()"),
    _text("split and join", "'-'.join(s.split()) + ','.join(reversed(s.split(' ')))"),
    _text("strip and pad", "s.strip('A') + s.center(9, '*') + s.ljust(6) + s.zfill(8)"),
    _text("replace and find", "s.replace('b', 'z'), s.find('c'), s.index('b'), s.count(' ')"),
    _text("startswith and endswith", "s.startswith('A') and s.endswith(('x', 'c'))"),
    _text("tests", "(s.isdigit(), s.isalpha(), '12'.isnumeric(), s.islower(), s.isidentifier())"),
    _text("partition", "s.partition(' ') + s.rpartition('b')"),
    _text("splitlines and expandtabs", "'a\\nb'.splitlines(), 'a\\tb'.expandtabs(2)"),
    _text("removeprefix", "s.removeprefix('Ab') + s.removesuffix('c')"),
    _text("encode and decode", "s.encode('utf8').decode()"),
    _text("membership", "'b' in s and 'q' not in s"),
    _text("comparison", "s == 'Ab c', s < 'B', s != ''"),
    _text("iteration", "[c * 2 for c in s]"),
    _text("f-string", "f'{s}:{len(s)}'"),
    _text("f-string with format and conversion", "f'{s!r:>10}|{3.14159:.2f}|{255:#x}|{7:03d}'"),
    _text("f-string nested", "f'{s:{len(s) + 4}}|{f\"{s}\"}'"),
    _text("f-string with =", "f'{s=}'"),
    _text("percent formatting", "'%s has %d and %.1f' % (s, 3, 2.5)"),
    _text("str.format", "'{} {name!r} {:>4}'.format(s, 7, name='n')"),
    _text("format builtin", "format(3.5, '.3f') + format(s, '>6')"),
    _text("str and repr of values", "str(12) + repr(s) + str(None) + str([1, 'a']) + str((1,)) + str({'k': 1.5})"),
    _text("ascii, ord", "ascii(s), [ord(c) for c in s]"),
    _text("translate", "s.translate(str.maketrans('Ab', 'xy'))"),
    _text("multiple concatenations", "'a' 'b' + s + str(len(s))"),
    Case(
        "f-string of a shape and a dtype",
        "def f(x): return x + 1, f'{x.shape} {x.dtype} {x.device} {x.ndim}'",
        inputs=["t(2, 3)", "t(2, 3)"],
        graphs=["add"],
    ),
    Case(
        "f-string of a user object",
        """
        class A:
            def __str__(self): return 'A!'
            def __format__(self, spec): return 'F' + spec
        def f(x): return x + 1, f'{A()} {A()!s} {A():q}'
        """,
        graphs=["add"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "another string recompiles",
        "def f(x, s): return x + 1 if s == 'a' else x - 1",
        inputs=["t(3), 'a'", "t(3), 'b'"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case("string as dispatch key", "def f(x, s): return getattr(x, s)()", ["t(3), 'sin'", "t(3), 'cos'"], ["sin", "cos"], compiles=2),
    Case("bytes", "def f(x, b): return x + len(b), b + b'!', b[0], b.upper()", ["t(3), b'ab'", "t(3), b'ab'"], ["add"]),
    Case(
        "string built in a loop",
        """
        def f(x):
            s = ''
            for i in range(3): s += str(i)
            return x + int(s)
        """,
        graphs=["add"],
    ),
    Case(
        "regular expression",
        """
        import re
        def f(x, s): return x + 1, re.sub('b', 'z', s)
        """,
        inputs=["t(3), 'abc'", "t(3), 'abc'"],
        fullgraph=False,
        compiles=None,
    ),
]


@pytest.mark.parametrize("case", NUMBERS, ids=lambda case: case.name)
def test_numbers(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", STRINGS, ids=lambda case: case.name)
def test_strings(case: Case) -> None:
    case.check()
