"""Handler tables: what tracing does for C functions, C methods, attributes and types. One row per thing.

    @function(len)                    def _(tx, args, kwargs): ...
    @method(list.append)              def _(tx, self, args, kwargs): ...
    @getset(torch.Tensor.shape)       def _(tx, self): ...
    @constructor(list)                def _(tx, cls, args, kwargs): ...

Handlers take and return `Value`s, raise `Raised` for exceptions of the program (through `tx.throw(ValueError, "...")`) and
`BreakError` for what can't be captured, and must not change any state before they raise.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer
    from dynamo.symbolic.values.kinds import Value

H = TypeVar("H", bound=Callable[..., Any])


class Table:
    """Rows keyed by the identity of a real object, which the table keeps alive.

    An object has one row. A second one takes its place and stands in `replaced`: what is one object in a torch of tomorrow
    should not keep this package from being imported, and a test holds that there is none.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.rows: dict[int, tuple[object, Callable[..., Any]]] = {}
        self.replaced: list[tuple[object, Callable[..., Any]]] = []

    def get(self, obj: object) -> Callable[..., Any] | None:
        row = self.rows.get(id(obj))
        return row[1] if row is not None else None

    def add(self, *objs: object) -> Callable[[H], H]:
        def put(handler: H) -> H:
            for obj in objs:
                known = self.rows.get(id(obj))
                if known is not None and known[1] is not handler:
                    self.replaced.append(known)
                self.rows[id(obj)] = (obj, handler)
            return handler

        return put


FUNCTIONS = Table("functions")  # builtin and Python functions called directly
METHODS = Table("methods")  # method descriptors and slot wrappers of C types, keyed by the descriptor
GETSETS = Table("getsets")  # getset and member descriptors of C types
CODES = Table("codes")  # Python functions by their code object: closures of which there are many; `row(tx, fn, args, kwargs)`
CONSTRUCTORS = Table("constructors")  # C types (and Python types that need a special making)
NEW = Table("new")  # C types by which an instance of a subclass is made: `row(tx, cls, args, kwargs)`

function = FUNCTIONS.add
method = METHODS.add
getset = GETSETS.add
constructor = CONSTRUCTORS.add
code_row = CODES.add

# Functions that always break, as (id of the break, what), by id(): known before the call begins (see foresight.py).
CERTAIN: dict[int, tuple[str, str]] = {}


def breaks(id_: str, *fns: Callable[..., Any]) -> None:
    """Declare functions that are a break whatever they are called with."""
    for fn in fns:
        certain = CERTAIN[id(fn)] = (id_, fn.__name__)

        def row(tx: Tracer, args: list[Value], kwargs: dict[str, Value], certain: tuple[str, str] = certain) -> Value:
            raise tx.break_(*certain)

        FUNCTIONS.add(fn)(row)


# C functions without effects: folded when all arguments are known Python objects. Filled by the handler modules.
PURE: set[int] = set()
_pure_keep: list[object] = []


def pure(*objs: object) -> None:
    """Declare C functions (or C methods of constants) as foldable."""
    for obj in objs:
        PURE.add(id(obj))
        _pure_keep.append(obj)


def nested_code(code: types.CodeType, *names: str) -> types.CodeType:
    """The code object of a function defined inside another."""
    for name in names:
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    return code
