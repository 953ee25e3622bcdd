"""Binding: the inputs an entry gets are the slots CPython would fill, and a refused call raises CPython's own TypeError."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .kit import compiled

NAMES = "abcdefgh"


@st.composite
def functions(draw: st.DrawFn) -> Any:
    """A function with any mix of parameter kinds whose result is its own frame inputs."""
    posonly, normal, kwonly = (draw(st.integers(0, 3)) for _ in range(3))
    names = list(NAMES[: posonly + normal])
    with_default = draw(st.integers(0, len(names)))
    parts = [name if i < len(names) - with_default else f"{name}={i}" for i, name in enumerate(names)]
    if posonly:
        parts.insert(posonly, "/")
    varargs, varkw = draw(st.booleans()), draw(st.booleans())
    keyword_names = [f"k{i}" for i in range(kwonly)]
    if varargs:
        parts.append("*rest")
    elif kwonly:
        parts.append("*")
    parts += [f"{name}={i * 10}" if draw(st.booleans()) else name for i, name in enumerate(keyword_names)]
    if varkw:
        parts.append("**more")
    slots = names + keyword_names + ["rest"] * varargs + ["more"] * varkw
    closure = draw(st.booleans())
    result = ", ".join(slots + ["cell"] * closure)
    body = f"def f({', '.join(parts)}):\n    return ({result}{',' if result else ''})\n"
    source = (
        f"def outer(cell):\n{''.join('    ' + line + chr(10) for line in body.splitlines())}    return f\nf = outer('cell')"
        if closure
        else body
    )
    space: dict[str, Any] = {}
    exec(source, space)
    return space["f"]


calls = st.tuples(
    st.lists(st.integers(100, 999), max_size=8),
    st.dictionaries(st.sampled_from([*NAMES, "k0", "k1", "k2", "other", "rest", "more"]), st.integers(1000, 9999), max_size=4),
)


def opened(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v.cell_contents if type(v).__name__ == "cell" else v for v in values)


@given(functions(), calls)
def test_inputs_are_what_cpython_binds(fn: Any, call: tuple[list[int], dict[str, int]]) -> None:
    args, kwargs = call
    seen: list[Any] = []

    def entry(*inputs: Any) -> str:
        seen.append(opened(inputs))
        return "entry"

    served = compiled(fn, entry=entry)
    try:
        want, refusal = fn(*args, **kwargs), ""
    except TypeError as error:
        want, refusal = None, str(error)
    if refusal:
        for attempt in (lambda: served(*args, **kwargs), lambda: served.bind(tuple(args), kwargs)):
            with pytest.raises(TypeError) as refused:
                attempt()
            assert str(refused.value) == refusal
        assert not seen
    else:
        assert served(*args, **kwargs) == "entry"
        assert seen == [want]
        assert opened(served.bind(tuple(args), kwargs)) == want


def test_keywords_that_are_equal_but_not_identical() -> None:
    def f(alpha: int, beta: int = 2) -> tuple[int, int]:
        return (alpha, beta)

    key = "".join(["be", "ta"])
    assert compiled(f, entry=lambda *inputs: inputs)(1, **{key: 5}) == (1, 5)


def test_defaults_are_read_at_call_time() -> None:
    def f(a: int, b: int = 1, *, c: int = 2) -> None: ...

    served = compiled(f, entry=lambda *inputs: inputs)
    f.__defaults__ = (10,)
    f.__kwdefaults__ = {"c": 20}
    assert served(0) == (0, 10, 20)
    f.__kwdefaults__ = None
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'c'"):
        served(0)


def test_kwargs_dict_is_fresh() -> None:
    def f(**kw: int) -> None: ...

    given_dict = {"a": 1}
    got = compiled(f, entry=lambda kw: kw)(**given_dict)
    assert got == given_dict
    assert got is not given_dict


def test_keyword_that_is_not_a_string() -> None:
    def f(**kw: int) -> None: ...

    with pytest.raises(TypeError, match="keywords must be strings"):
        compiled(f, entry=lambda kw: kw)(**{1: 2})


def test_more_inputs_than_the_stack_buffer_holds() -> None:
    names = [f"x{i}" for i in range(100)]
    space: dict[str, Any] = {}
    exec(f"def outer(c):\n    def f({', '.join(names)}, last=7):\n        return c\n    return f\nf = outer(3)", space)
    served = compiled(space["f"], entry=lambda *inputs: inputs)
    for args in (range(100), range(101)):
        inputs = served(*args)
        assert inputs[:100] == tuple(range(100))
        assert inputs[100] == (7 if len(args) == 100 else 100)
        assert inputs[101].cell_contents == 3


def test_changed_code_runs_natively() -> None:
    def f(a: int) -> str:
        return "old"

    def g(a: int, b: int) -> str:
        return "new"

    served = compiled(f, entry=lambda a: "entry")
    assert served(1) == "entry"
    f.__code__ = g.__code__
    assert served(1, 2) == "new"


@pytest.mark.parametrize(("nargs", "nkw"), [(n, k) for n in range(4) for k in range(3)])
def test_method_calls(nargs: int, nkw: int) -> None:
    class Holder:
        def method(self, *args: int, **kwargs: int) -> None: ...

    Holder.method = compiled(Holder.method, entry=lambda self, args, kwargs: (self, args, kwargs))
    holder = Holder()
    args, kwargs = tuple(range(nargs)), {f"k{i}": i for i in range(nkw)}
    assert holder.method(*args, **kwargs) == (holder, args, kwargs)
    bound = holder.method
    assert bound(*args, **kwargs) == (holder, args, kwargs)
    assert Holder.method(holder, *args, **kwargs) == (holder, args, kwargs)
