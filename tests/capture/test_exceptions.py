"""`try`, `raise`, `assert`, `finally`: exceptions that are raised and handled while tracing."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

RESOLVED = [
    Case(
        "raise caught",
        """
        def f(x):
            try:
                raise ValueError('no')
            except ValueError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "caught by a base class",
        """
        def f(x):
            try:
                raise KeyError('k')
            except (IndexError, LookupError):
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "second handler",
        """
        def f(x):
            try:
                raise KeyError
            except ValueError:
                return x - 1
            except KeyError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "bare except",
        """
        def f(x):
            try:
                raise KeyError
            except:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "exception value used",
        """
        def f(x):
            try:
                raise ValueError('three', 3)
            except ValueError as e:
                return x + e.args[1], str(e)
        """,
        graphs=["add"],
    ),
    Case(
        "exception name is unbound afterwards",
        """
        def f(x):
            try:
                raise ValueError
            except ValueError as e:
                pass
            try:
                e
            except UnboundLocalError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "else",
        """
        def f(x):
            try:
                y = x + 1
            except ValueError:
                y = x
            else:
                y = y * 2
            return y
        """,
        graphs=["add mul"],
    ),
    Case(
        "finally",
        """
        def f(x, log):
            try:
                return x + 1
            finally:
                log.append('done')
        """,
        inputs=["t(3), []"] * 2,
        graphs=["add"],
    ),
    Case(
        "finally after an exception",
        """
        def f(x, log):
            try:
                try:
                    raise ValueError
                finally:
                    log.append('inner')
            except ValueError:
                log.append('outer')
            return x + len(log)
        """,
        inputs=["t(3), []"] * 2,
        graphs=["add"],
    ),
    Case(
        "finally overrides return",
        """
        def f(x):
            try:
                return x + 1
            finally:
                return x * 2
        """,
        graphs=None,
    ),
    Case(
        "nested try",
        """
        def f(x):
            try:
                try:
                    {}['a']
                except IndexError:
                    x = x - 1
            except KeyError:
                x = x + 1
            return x
        """,
        graphs=["add"],
    ),
    Case(
        "re-raise",
        """
        def f(x):
            try:
                try:
                    raise ValueError('a')
                except ValueError:
                    raise
            except ValueError as e:
                return x + len(str(e))
        """,
        graphs=["add"],
    ),
    Case(
        "raise from",
        """
        def f(x):
            try:
                try:
                    raise ValueError('a')
                except ValueError as e:
                    raise KeyError('b') from e
            except KeyError as e:
                return x + len(e.__cause__.args[0])
        """,
        graphs=["add"],
    ),
    Case(
        "context of an exception",
        """
        def f(x):
            try:
                try:
                    raise ValueError('abc')
                except ValueError:
                    raise KeyError
            except KeyError as e:
                return x + len(str(e.__context__))
        """,
        graphs=["add"],
    ),
    Case(
        "raise in a callee",
        """
        def g(n):
            if n > 2: raise ValueError(n)
            return n
        def f(x, n):
            try:
                return x * g(n)
            except ValueError as e:
                return x + e.args[0]
        """,
        inputs=["t(3), 1", "t(3), 5"],
        graphs=["mul", "add"],
        compiles=2,
    ),
    Case(
        "raise in a loop",
        """
        def f(x):
            for i in range(4):
                try:
                    if i % 2: raise ValueError
                    x = x + i
                except ValueError:
                    x = x * i
            return x
        """,
        graphs=["add mul add mul"],
    ),
    Case(
        "break out of try",
        """
        def f(x):
            for i in range(3):
                try:
                    if i == 1: break
                    x = x + 1
                finally:
                    x = x * 2
            return x
        """,
        graphs=["add mul mul"],
    ),
    Case(
        "continue out of except",
        """
        def f(x):
            for i in range(3):
                try:
                    [][i]
                except IndexError:
                    continue
                x = x * 100
            return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "KeyError from a dict",
        """
        def f(x, d):
            try:
                return x * d['a']
            except KeyError:
                return x + 1
        """,
        inputs=["t(3), {}", "t(3), {}"],
        graphs=["add"],
    ),
    Case(
        "IndexError from a list",
        """
        def f(x, xs):
            try:
                return xs[5]
            except IndexError:
                return x + 1
        """,
        inputs=["t(3), [1]", "t(3), [1]"],
        graphs=["add"],
    ),
    Case(
        "AttributeError",
        """
        class A: pass
        def f(x):
            try:
                return A().nothing
            except AttributeError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "ZeroDivisionError",
        """
        def f(x, n):
            try:
                return x * (1 / n)
            except ZeroDivisionError:
                return x + 1
        """,
        inputs=["t(3), 0", "t(3), 0"],
        graphs=["add"],
    ),
    Case(
        "TypeError from a call",
        """
        def g(a): return a
        def f(x):
            try:
                return g()
            except TypeError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "TypeError from an operator",
        """
        def f(x):
            try:
                return 1 + 'a'
            except TypeError as e:
                return x + len(str(e))
        """,
        graphs=["add"],
    ),
    Case(
        "ValueError from int",
        """
        def f(x, s):
            try:
                n = int(s)
            except ValueError:
                n = 4
            return x * n
        """,
        inputs=["t(3), 'q'", "t(3), 'q'"],
        graphs=["mul"],
    ),
    Case(
        "NameError",
        """
        def f(x):
            try:
                return undefined_name
            except NameError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "StopIteration",
        """
        def f(x):
            it = iter([])
            try:
                next(it)
            except StopIteration:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "unpacking error",
        """
        def f(x):
            try:
                a, b = [1, 2, 3]
            except ValueError:
                return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "user exception class",
        """
        class Mine(Exception):
            def __init__(self, n):
                super().__init__(f'n={n}')
                self.n = n
        def f(x):
            try:
                raise Mine(3)
            except Mine as e:
                return x * e.n, str(e)
        """,
        graphs=["mul"],
    ),
    Case(
        "user exception hierarchy",
        """
        class A(Exception): pass
        class B(A): pass
        def f(x):
            try:
                raise B
            except A as e:
                return x + 1 if type(e) is B else x
        """,
        graphs=["add"],
    ),
    Case(
        "assert that holds",
        """
        def f(x):
            assert x.shape[0] == 3, 'size'
            assert isinstance(x, torch.Tensor)
            return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "assert caught",
        """
        def f(x):
            try:
                assert x.ndim == 5, 'five'
            except AssertionError as e:
                return x + 1, str(e)
        """,
        graphs=["add"],
    ),
    Case(
        "with block swallows",
        """
        class Swallow:
            def __enter__(self): return self
            def __exit__(self, t, v, tb): return t is ValueError
        def f(x):
            with Swallow():
                x = x + 1
                raise ValueError
            return x * 2
        """,
        graphs=["add mul"],
    ),
    Case(
        "with block sees the exception",
        """
        class See:
            def __init__(self, log): self.log = log
            def __enter__(self): return self
            def __exit__(self, t, v, tb): self.log.append((t.__name__, str(v)))
        def f(x, log):
            try:
                with See(log): raise KeyError('k')
            except KeyError:
                return x + 1
        """,
        inputs=["t(3), []"] * 2,
        graphs=["add"],
    ),
    Case(
        "exception stored",
        """
        def f(x, out):
            try:
                raise ValueError('kept')
            except ValueError as e:
                out.append(e)
            return x + 1
        """,
        inputs=["t(3), []"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case("exception object made, not raised", "def f(x): return x + 1, ValueError('v', 2)", graphs=["add"], fullgraph=False, compiles=None),
    Case(
        "tensor error caught",
        """
        def f(x):
            try:
                return x @ torch.ones(7, 7)
            except RuntimeError:
                return x + 1
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "NotImplementedError in a method",
        """
        class A:
            def g(self): raise NotImplementedError
        class B(A):
            def g(self):
                try: return super().g()
                except NotImplementedError: return 4
        def f(x): return x * B().g()
        """,
        graphs=["mul"],
    ),
    Case(
        "exception group",
        """
        def f(x):
            try:
                raise ExceptionGroup('g', [ValueError(1)])
            except* ValueError:
                x = x + 1
            return x
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "effects before a caught exception stay",
        """
        def f(x, log):
            try:
                log.append(x + 1)
                log.append({}['no'])
            except KeyError:
                log.append(x * 2)
            return len(log)
        """,
        inputs=["t(3), []"] * 2,
        graphs=["add mul"],
    ),
]


@pytest.mark.parametrize("case", RESOLVED, ids=lambda case: case.name)
def test_exceptions_that_resolve(case: Case) -> None:
    case.check()
