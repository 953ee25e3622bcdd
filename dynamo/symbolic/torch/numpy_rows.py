"""NumPy while tracing: its numbers are constants."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from dynamo.symbolic.protocols.registry import CONSTRUCTORS
from dynamo.symbolic.values.errors import NotConstant
from dynamo.symbolic.values.numpy_types import NUMBERS

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer
    from dynamo.symbolic.values.kinds import Value

    Args = list[Value]
    Kwargs = dict[str, Value]


@CONSTRUCTORS.add(*NUMBERS)
def _number(tx: Tracer, cls: type, args: Args, kwargs: Kwargs) -> Value:
    """`np.float32(x)`: a constant of a constant. What NumPy warns of is left to the program's own call."""
    try:
        known = [tx.as_python(a) for a in args], {k: tx.as_python(v) for k, v in kwargs.items()}
    except NotConstant as e:
        raise tx.break_("DD005", f"{cls.__name__}()") from e
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return tx.wrap(cls(*known[0], **known[1]), None)
        except Warning as e:
            raise tx.break_("DD009", f"{cls.__name__}(): {e}", cause=e) from e
        except (TypeError, ValueError, OverflowError) as e:
            raise tx.throw(type(e), *e.args) from e
