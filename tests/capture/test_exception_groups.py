"""Exception groups and `except*`."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

TWO = "ExceptionGroup('g', [ValueError(1), TypeError(2)])"
DEEP = "ExceptionGroup('g', [ValueError(1), TypeError(2), ExceptionGroup('h', [ValueError(3), KeyError('k')])])"

CLAUSES = [
    Case(
        "each clause takes its part",
        f"""
        def f(x):
            try:
                raise {TWO}
            except* ValueError as e:
                x = x + len(e.exceptions)
            except* TypeError:
                x = x * 2
            return x
        """,
        graphs=["add mul"],
    ),
    Case(
        "rest propagates in its old shape",
        f"""
        def f(x):
            seen = []
            try:
                try:
                    raise {DEEP}
                except* ValueError as e:
                    seen.append(repr(e))
            except ExceptionGroup as e:
                seen += [repr(e), e.message, str(e)]
            return x + 1, seen
        """,
        graphs=["add"],
    ),
    Case(
        "naked exception is wrapped",
        """
        def f(x):
            try:
                raise ValueError(5)
            except* ValueError as e:
                kept = e
                x = x.sin()
            return x, type(kept).__name__, str(kept), kept.exceptions[0].args
        """,
        graphs=["sin"],
    ),
    Case(
        "naked exception nobody takes",
        """
        def f(x):
            try:
                try:
                    raise KeyError("k")
                except* ValueError:
                    x = x * 100
            except KeyError as e:
                return x + 1, str(e)
        """,
        graphs=["add"],
    ),
    Case(
        "new exceptions and raised ones",
        f"""
        def f(x):
            try:
                try:
                    raise {DEEP}
                except* ValueError as e:
                    raise e
                except* TypeError as e:
                    raise KeyError(3) from e
                except* KeyError:
                    raise
            except BaseException as e:
                causes = [type(a.__cause__).__name__ for a in e.exceptions]
                return x + 1, repr(e), causes, [type(a.__context__).__name__ for a in e.exceptions]
        """,
        graphs=["add"],
    ),
    Case(
        "two clauses raise again",
        f"""
        def f(x):
            try:
                try:
                    raise {DEEP}
                except* ValueError:
                    raise
                except* TypeError:
                    raise
            except BaseException as e:
                return x + 1, repr(e)
        """,
        graphs=["add"],
    ),
    Case(
        "several classes, else and finally",
        f"""
        def f(x):
            try:
                x = x + 1
            except* ValueError:
                x = x * 100
            else:
                x = x * 2
            finally:
                x = x.cos()
            try:
                raise {TWO}
            except* (ValueError, TypeError) as e:
                x = x - len(e.exceptions)
            finally:
                x = x.sin()
            return x
        """,
        graphs=["add mul cos sub sin"],
    ),
    Case(
        "in a loop",
        """
        def f(x):
            for i in range(3):
                try:
                    if i == 1:
                        raise ValueError(i)
                    x = x + i
                except* ValueError:
                    x = x * 10
            return x
        """,
        graphs=["add mul add"],
    ),
    Case(
        "what is being handled",
        f"""
        import sys
        def f(x):
            seen = []
            try:
                raise {TWO}
            except* ValueError:
                seen.append(str(sys.exc_info()[1]))
            except* TypeError:
                try:
                    raise KeyError("k")
                except KeyError as e:
                    seen.append(repr(e.__context__))
            return x + 1, seen
        """,
        graphs=["add"],
    ),
    Case(
        "wrong classes",
        """
        def caught(kind):
            try:
                try:
                    raise ValueError(1)
                except* kind:
                    pass
            except TypeError as e:
                return str(e)

        def f(x):
            return x + 1, caught(ExceptionGroup), caught(3), caught((ValueError, ExceptionGroup))
        """,
        graphs=["add"],
    ),
    Case(
        "from a called function, with a tensor",
        """
        def g(x):
            raise ExceptionGroup("g", [ValueError(x.sum()), TypeError(2)])

        def f(x):
            try:
                g(x)
            except* ValueError as e:
                y = e.exceptions[0].args[0]
            except* TypeError:
                pass
            return x + y
        """,
        graphs=["sum add"],
    ),
    Case(
        "leaves the function",
        f"""
        def f(x):
            try:
                raise {TWO}
            except* ValueError:
                x = x + 1
            return x
        """,
        compiles=None,
    ),
    Case(
        "break in the block",
        f"""
        def f(x):
            try:
                x = x + 1
                print("in")
                raise {TWO}
            except* (ValueError, TypeError) as e:
                x = x * len(e.exceptions)
            return x.sin()
        """,
        graphs=["add", "mul sin"],
        breaks=["DD004:4"],
    ),
    Case(
        "break in a clause",
        f"""
        def f(x):
            x = x.cos()
            try:
                raise {TWO}
            except* ValueError:
                x = x + 1
                print("caught")
            except* TypeError:
                x = x * 2
            return x.sin()
        """,
        breaks=["DD004:7"],
    ),
]

GROUPS = [
    Case(
        "split, subgroup, derive",
        f"""
        def f(x):
            g = {DEEP}
            a, b = g.split(ValueError)
            c = g.subgroup(lambda e: isinstance(e, KeyError))
            return x + 1, [repr(e) for e in (g, a, b, c, g.derive([ValueError(4)]), g.subgroup((OSError, IndexError)))], str(g)
        """,
        graphs=["add"],
    ),
    Case(
        "own derive",
        f"""
        class G(ExceptionGroup):
            def derive(self, excs):
                return G(self.message, excs)

        def f(x):
            try:
                raise G("g", {DEEP}.exceptions)
            except* ValueError as e:
                x = x + len(e.exceptions)
                first = type(e).__name__
            except* Exception as e:
                rest = type(e).__name__
            return x, first, rest
        """,
        graphs=["add"],
    ),
    Case(
        "class by members",
        """
        def f(x):
            made = [BaseExceptionGroup("g", [ValueError(1)]), BaseExceptionGroup("g", [KeyboardInterrupt()])]
            return x + 1, [type(g).__name__ for g in made], isinstance(made[0], Exception)
        """,
        graphs=["add"],
    ),
    Case(
        "misuse",
        """
        def text(make):
            try:
                make()
            except (TypeError, ValueError) as e:
                return type(e).__name__, str(e)

        def f(x):
            wrong = [(), ("a",), (1, [ValueError()]), ("a", [1]), ("a", 1), ("a", "bc"), ("a", {1}), ("a", []), ("a", [ValueError])]
            made = [text(lambda: ExceptionGroup(*args)) for args in wrong]
            group = ExceptionGroup("a", [ValueError()])
            made.append(text(lambda: ExceptionGroup("a", [KeyboardInterrupt()])))
            return x + 1, made, [text(lambda: group.split(m)) for m in (3, int, len)]
        """,
        graphs=["add"],
    ),
    Case(
        "returned, with notes",
        """
        def f(x):
            members = [ValueError(1), TypeError(x)]
            g = ExceptionGroup("g", members)
            members.append(3)
            g.add_note("note")
            return x + 1, g, g.exceptions, members
        """,
        graphs=["add"],
    ),
    Case(
        "notes are copied to the parts",
        """
        def f(x):
            g = ExceptionGroup("g", [ValueError(1), TypeError(2)])
            g.add_note("note")
            part = g.subgroup(ValueError)
            part.add_note("more")
            return x + 1, part.__notes__, g.__notes__
        """,
        graphs=["add"],
    ),
    Case(
        "passed in",
        """
        def f(x, g):
            a, b = g.split(ValueError)
            return x + len(a.exceptions), str(b), g.message, g.exceptions[0]
        """,
        inputs=[f"t(3), {TWO}", f"t(3), {DEEP}"],
        graphs=["add"],
        compiles=2,
    ),
]


@pytest.mark.parametrize("case", CLAUSES, ids=lambda case: case.name)
def test_clauses(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", GROUPS, ids=lambda case: case.name)
def test_groups(case: Case) -> None:
    case.check()
