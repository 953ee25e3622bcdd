"""What an expression of Python gives, or refuses and in which words: sizes without room, templates, operands of every kind, what is made
of classes."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import itertools
import math
import operator
import sys
import traceback
import types
import typing
from fractions import Fraction

import torch

from repro_corpus.program import program


class Index:
    """Counts as an integer, which is the larger than any size."""

    def __index__(self):
        return 2**70


class Two:
    def __repr__(self):
        return "Two"

    def __index__(self):
        return 2


class Items:
    """Has items for every key."""

    kept = 3

    def __getitem__(self, key):
        return ("item", key)

    def __repr__(self):
        return "Items!"

    def __format__(self, spec):
        return f"<{spec}>"


class Plain:
    def __str__(self):
        return "plain"

    def __repr__(self):
        return "Plain?"


class Missing(dict):
    def __missing__(self, key):
        return f"no {key}"


class Refuses:
    def __repr__(self):
        raise ValueError("no text")


class Matches:
    def __init__(self, change):
        self.change = change

    def __eq__(self, other):
        self.change()
        return False

    __hash__ = None


class Answers:
    def __eq__(self, other):
        return "answered"

    __hash__ = None


class Whole(int):
    pass


class Text(str):  # noqa: SLOT000  # as programs have it
    pass


class Bases:
    """What counts as a class because it has bases."""

    def __init__(self, *bases):
        self.__bases__ = bases


class Checked(type):
    def __subclasscheck__(cls, other):
        return other is int


class CheckedClass(metaclass=Checked):
    pass


_ONE = ("eager",)  # of backends, where all is about what capture does with Python's own objects
MODULES = (collections, copy, functools, itertools, math, operator, sys, torch, types, typing)
NAMES = {**{m.__name__: m for m in MODULES}, "Fraction": Fraction}


def function_of(expression):
    """A function with code of its own, whose result tells what the expression gives or raises."""
    text = f"""
def outcome(x):
    a, t, s, d, r = [0, 1], (1, 2), "abc", collections.deque([1, 2, 3]), range(10)
    try:
        found = {expression}
    except NameError:
        raise
    except Exception as e:
        return x * 2, type(e).__name__, e.args
    return x + 1, type(found).__name__, found, a, list(d)
"""
    names = {**globals(), **NAMES}
    exec(compile(text, f"<{expression}>", "exec"), names)
    return names["outcome"]


def outcomes(compile, expressions):
    return [(e, compile(function_of(e))(torch.ones(2))) for e in expressions]


@program("", "integers for which C code has no room, as indices, sizes and counts", backends=_ONE)
def sizes(compile):
    out = []
    for n in ("sys.maxsize", "2**70", "-(2**70)", "Index()"):
        texts = [f"{v}[{n}]" for v in "a t d s r".split()] + [f"{v}[{n}:]" for v in "a t s r".split()] + [f"{v}[::{n}]" for v in "at"]
        texts += [f"{v} * {n}" for v in "a t d".split()] + [f"a.insert({n}, 1)", f"a.pop({n})", f"d.rotate({n})", f"d.insert({n}, 1)"]
        texts += [f"collections.deque([1], maxlen={n})", f"list(itertools.islice(a, {n}))", f"next(itertools.repeat(1, {n}))"]
        texts += [f"list(itertools.combinations(a, {n}))", f"list(itertools.permutations(a, {n}))", f"operator.length_hint(a, {n})"]
        texts += [f"next(reversed(range({n})))", f"len(range({n}))", f"a.__setitem__({n}, 1)", f"a.__delitem__({n})", f"a.index(1, {n})"]
        out += outcomes(compile, texts)
    texts = ["a.__imul__(sys.maxsize)", "[0] * 2**62", "'ab' * sys.maxsize", "s * Two()", "b'ab' * Two()", "'%.*f' % (2**70, 1.0)"]
    texts += ["itertools.tee(a, -1)", "list(itertools.product(a, repeat=-1))", "s * Plain()", "bytes(Two())", "bytes(Plain())"]
    return out + outcomes(compile, texts)


@program("", "templates of both kinds, and what they are filled with", backends=_ONE)
def templates(compile):
    texts = ["'{}{0}'.format(a)", "'{0}{}'.format(a)", "'{0!x}'.format(a)", "'{0[a}'.format(a)", "'{:{:{}}}'.format(1, 3, 2)"]
    texts += [f"'{{0[{2**70}]}}'.format(a)", "'{0}'.format_map({})", "'{}'.format_map({'': 3})", "'{a} {b}'.format_map(Missing(a=1))"]
    texts += ["'{0.kept} {0[1]} {0[a]} {0} {0!r:>8} {0:x} {0!s}'.format(Items())", "'{0.none}'.format(Plain())", "'{}'.format(Refuses())"]
    texts += ["'{0!s} {0!r} {0!a} {0}'.format(Plain())", "'{:>{w}.{p}}'.format('abc', w=6, p=2)", "'{0[5]}'.format(a)", "'{}'.format()"]
    texts += ["'{a}'.format()", "'{x.shape} {0}'.format(3, x=x)", "'{0.__class__.__name__}'.format(a)", "'{self}'.format(self=1)"]
    texts += ["'abc' % [1]", "'abc' % Items()", "'%(x)s' % Items()", "'%s' % Items()", "'%s %s' % Items()", "'abc' % Plain()", "'abc' % {}"]
    texts += ["'%(a)s %(b)s' % Missing(a=1)", "'%(x)s' % Plain()", "'%s' % d", "'abc' % d", "'%s' % (x.shape,)", "'abc' % r"]
    texts += [
        f"'{kind}' % {v}" for kind in ("%d", "%x", "%f", "%c", "%r") for v in ("a", "Plain()", "Two()", "Fraction(7, 2)", "d", "None")
    ]
    return outcomes(compile, texts)


@program("", "operands and arguments of kinds that are refused, and the names of their types", backends=_ONE)
def refusals(compile):
    kinds = ["d", "collections.OrderedDict(a=1)", "collections.defaultdict(int)", "functools.partial(len)", "Plain()", "{1}", "slice(0)"]
    forms = ["-{}", "abs({})", "round({})", "int({})", "float({})", "next({})", "{}()", "{}.none", "{} + 1", "1 < {}", "hash({}) and 0"]
    forms += ["math.sqrt({})", "math.floor({})", "math.factorial({})", "operator.delitem({}, 0)", "operator.delitem({}, 's')", "range({})"]
    forms = [form for form in forms if form != "hash({}) and 0"]
    texts = [form.format(kind) for kind in kinds for form in forms if (form, kind) != ("operator.delitem({}, 0)", "d")]
    texts += ["functools.partial(3)", "collections.defaultdict(3)", "collections.defaultdict([])", "collections.OrderedDict([1])"]
    texts += [
        "collections.OrderedDict([(1,)])",
        "collections.OrderedDict([(1, 2, 3)])",
        "dict([1])",
        "dict([(1,)])",
        "itertools.chain(*int)",
    ]
    texts += [
        "''.join(int)",
        "[*int]",
        "reversed(Items())",
        "reversed({1})",
        "math.gcd(Fraction(1), 2)",
        "math.comb(Two(), 1)",
        "torch.zeros(d)",
    ]
    texts += ["x.view(d)", "torch.stack(collections.deque([x, x]))", "issubclass(3, int)", "issubclass(int, 3)", "isinstance(3, Bases())"]
    texts += ["isinstance(3, Bases(int))", "issubclass(int, CheckedClass)", "issubclass(str, CheckedClass)", "issubclass(Bases(), Bases())"]
    texts += ["typing.List['/T']", "{typing.Annotated[int, {}]}", "{typing.Annotated[int, []]: 1}", "list[int]['x']"]
    texts += ["typing.Optional[int, str]", "typing.List[int][str]", "typing.Union[()]", "collections.deque.none", "Whole.none"]
    return outcomes(compile, texts)


@program("", "made of subclasses of numbers and texts: copies, conversions, comparisons with tensors")
def subclasses(compile):
    texts = ["copy.copy(Whole(3))", "copy.deepcopy(Whole(3))", "copy.copy(Text('ab'))", "copy.deepcopy([Text('ab')])", "x == Whole(1)"]
    texts += ["copy.copy(functools.partial(len))(a)", "copy.copy(math)", "copy.deepcopy([math])", "int(Text('12'))", "float(Text('1.5'))"]
    texts += ["int(Text('x'))", "x != Whole(1)", "Whole(1) == x", "x == Answers()", "x != Answers()", "Answers() == x", "x == Plain()"]
    texts += [
        "x == [1, 1]",
        "x == None",
        "x != 'text'",
        "int(bytearray(b'12'))",
        "types.MethodType(len, a)()",
        "types.MethodType(len, a).__self__",
    ]
    return outcomes(compile, texts)


@program("", "comparisons that change what is gone through", backends=_ONE)
def changed_while_compared(compile):
    @compile
    def of_list(x, form):
        a = [1, 2, 3, 4]
        found = None
        if form == 0:
            found = Matches(lambda: a.pop()) in a
        if form == 1:
            found = a.count(Matches(lambda: a.pop()))
        if form == 2:
            found = a.count(Matches(lambda: len(a) < 9 and a.append(1)))
        return x + 1, found, a

    @compile
    def of_deque(x, form):
        d = collections.deque([1, 2, 3, 4])
        try:
            found = Matches(d.clear) in d if form else d.count(Matches(d.pop))
        except RuntimeError as e:
            found = e.args
        return x + 1, found, list(d)

    return [of_list(torch.ones(2), form) for form in (0, 1, 2)], [of_deque(torch.ones(2), form) for form in (0, 1)]


@program("", "Python's own types as dtypes")
def types_as_dtypes(compile):
    forms = [
        "x.to({})",
        "x.to(dtype={})",
        "x.sum(dtype={})",
        "torch.zeros(2, dtype={})",
        "torch.full((2,), 1, dtype={})",
        "x.new_ones(2, dtype={})",
    ]
    forms += ["torch.ones_like(x, dtype={})", "x.cumsum(0, dtype={})", "torch.tensor([1, 0], dtype={})", "x.type({})", "x.to('cpu', {})"]
    return outcomes(compile, [form.format(kind) for form in forms for kind in ("bool", "int", "float", "complex")])


@program("", "what a traceback has", backends=_ONE)
def tracebacks(compile):
    @compile
    def f(x):
        try:
            int([])
        except TypeError as e:
            tb = e.__traceback__
        has = hasattr(tb, "tb_frame"), hasattr(tb, "tb_none")
        traceback.clear_frames(tb)
        tb = None
        return x + 1, has

    def cleared(e):
        traceback.clear_frames(e.__traceback__)
        return str(e)

    @compile
    def g(x):
        try:
            [].none  # raises
        except AttributeError as e:
            return x * 2, cleared(e)

    return f(torch.ones(2)), g(torch.ones(2))


class Own(Whole):
    """Its own methods come before those of the number that it holds."""

    def __add__(self, other):
        return "added"

    def __eq__(self, other):
        return "equal"

    __hash__ = int.__hash__


class Real(float):
    def __float__(self):
        return 100.0


class Said(Text):
    def __str__(self):
        return "said"


class Octets(bytes):
    pass


class Pair(complex):
    pass


@program("", "arithmetic, comparisons and methods of objects whose classes are derived from numbers and texts")
def derived_from_numbers_and_texts(compile):
    def of_any(x, v):
        return x + 1, v == v, v != 3, [v] == [v], v in (1, 2, 3, "ab"), bool(v), {v: 1}.get(v), v + v

    def of_numbers(x, v):
        try:
            found = v * 2, 2 * v, v // 2, -v, abs(v), v % 2, v < 3, 3 <= v, divmod(v, 2), pow(v, 2), max(v, 1), round(v), 3 + v, 3 == v
        except TypeError as e:
            found = e.args
        return x + 1, found

    def of_integers(x, v):
        return x * v, [1] * v, range(v), [5, 6, 7, 8][v], v.bit_length(), int(v), float(v), v.real, 1 << v

    def of_texts(x, v):
        found = v * 2, v[0], v[1:], "b" in v, v.split("b"), v.upper(), v.replace("a", v), "x".join([v, v]), v.startswith(v), list(v), len(v)
        filled = operator.mod("%s", v), v % (), f"{v}", str.format("{}", v)
        return x + 1, found, filled, v < "b", "b" > v, "ab" + v, max(v, "a"), {"ab": 1}.get(v), str(v)

    out = []
    numbers = [Whole(3), Whole(4), Own(3), Real(2.5), Real(-0.0), Real(0.0), Real(2.5)]
    texts = [Text("ab"), Said("ab"), Text("abc"), Text("ab")]
    given = [
        (of_any, [*numbers, *texts, Octets(b"ab"), Pair(2j)]),
        (of_numbers, numbers),
        (of_integers, [Whole(3), Whole(2)]),
        (of_texts, texts),
    ]
    for function, values in given:
        compiled = compile(function)
        out += [compiled(torch.ones(2), v) for v in values]
    return [repr(found) for found in out]


@program("", "kinds of objects that functions take as what they are not", backends=_ONE)
def arguments_of_other_kinds(compile):
    texts = [
        "iter(3, 4)",
        "divmod(3, Plain())",
        "divmod(Plain(), 3)",
        "Plain() in 3",
        "Plain() in None",
        "Plain() in s",
        "Plain() in b'ab'",
    ]
    texts += ["Two() in range(5)", "Plain() in range(5)", "3 in int", "functools.partial(len) in 3", "3 in functools.partial(len)"]
    texts += ["setattr(d, 3, 1)", "delattr(d, 3)", "getattr(d, 3)", "hasattr(d, 3)", "int(Two(), 3)", "int(Plain(), 99)", "int(a, 2)"]
    texts += [
        "operator.concat(3, a)",
        "operator.concat(a, 3)",
        "operator.concat({}, {})",
        "operator.indexOf(3, 1)",
        "operator.countOf(Plain(), 1)",
    ]
    texts += ["{}[{}.keys()]", "{{}.items(): 1}", "format(3, 4)", "functools.reduce(len, 3)", "list.__add__(3, a)", "dict.__or__(3, {})"]
    texts += [
        "list.append(3, 4)",
        "enumerate(3, 1.5)",
        "s * {}",
        "s * d",
        "s * slice(0)",
        "a + 1",
        "t + 1",
        "d + 1",
        "s + Plain()",
        "b'a' + a",
    ]
    return outcomes(compile, texts)


@program("", "methods called with other arguments than they take, and what they leave behind", backends=_ONE)
def methods(compile):
    texts = [
        "{}.keys().__contains__()",
        "{}.items().__len__(3)",
        "slice(0).indices()",
        "s.__add__(Plain())",
        "s.__mul__(Plain())",
        "a.__mul__(1.5)",
    ]
    texts += [
        "t.index(1, None)",
        "a.__add__(3)",
        "t.__add__(3)",
        "{frozenset({1})}.remove({1})",
        "{1, 2}.discard({1})",
        "{1, 2}.remove({1})",
    ]
    texts += ["{1, 2} ^ {97}", "{1, 2}.symmetric_difference([97])", "int.__rmod__(3, Whole(2))", "bool.__and__(True, Whole(2))"]
    texts += [
        "collections.OrderedDict().pop(None)",
        "collections.OrderedDict().pop((1, 2))",
        "collections.OrderedDict().move_to_end((1, 2))",
    ]
    texts += ["a.extend(())", "a.extend(range(0)) or a.extend([])", "list(Items.__getitem__ and [*{1, 2, 97}])"]
    return outcomes(compile, texts)


@program("", "sets that are updated in place by sets, and replaced by what views of dicts make of them", backends=_ONE)
def updated_sets(compile):
    out = []
    for symbol in ("|=", "&=", "-=", "^="):
        for value in ("{2: 1}.keys()", "{2: 1}.items()", "{2: 1}.values()", "frozenset({1, 2})", "[1]"):
            text = f"""
def updated(x, s):
    t = s
    try:
        s {symbol} {value}
    except TypeError as e:
        return x, e.args, t
    return x + 1, s, t, s is t
"""
            names = {}
            exec(compile_text(text, symbol, value), names)
            given = {1}
            out.append((compile(names["updated"])(torch.ones(2), given), given))
    return out


def compile_text(text, *names):
    return builtins.compile(text, f"<{' '.join(names)}>", "exec")


@program("", "lists of the caller that are extended by nothing, and by what numbers come first for", backends=_ONE)
def extended(compile):
    class Adds:
        def __radd__(self, other):
            return "added to", other

    @compile
    def f(x, given, more):
        given.extend(more)
        given += more
        print(end="")
        return x + 1, given

    @compile
    def g(x, given, other):
        given += other
        return x + 1, given

    given = [1]
    return [f(torch.ones(2), given, more) for more in ((), [], [2])], given, g(torch.ones(2), [1], Adds())
