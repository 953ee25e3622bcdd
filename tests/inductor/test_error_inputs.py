"""What operators of op_db refuse, compiled code refuses with an exception of the same type, and no internal error behind it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from torch.testing._internal.common_methods_invocations import op_db

import dynamo
from tests.samples import draw_errors

# Operator -> why compiled code accepts what eager refuses. Results are right: only the refusal is missing.
ACCEPTED = {
    **dict.fromkeys(
        ("__radd__", "__rdiv__", "__rmul__", "__rand__", "__ror__", "__rxor__"),
        "the sample calls a slot of Tensor on a number, which Python itself would never do",
    ),
    "aminmax": "an out= of another dtype",
    "complex": "an out= of another dtype",
}
OPS = [op for op in op_db if op.error_inputs_func is not None and op.name not in ACCEPTED]


def kind_of_outcome(fn: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fn()
        except Exception as e:  # noqa: BLE001  # the kind of exception is what is compared
            return type(e).__name__
    return "a result"


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("op", [pytest.param(op, id=f"{op.name}{op.variant_test_name and '.'}{op.variant_test_name}") for op in OPS])
def test_refused(op: Any, backend: str) -> None:
    for error_input in draw_errors(op):
        sample = error_input.sample_input

        def call(x: Any, args: Any, kwargs: Any) -> Any:
            return op.op(x, *args, **kwargs)

        given = (sample.input, sample.args, sample.kwargs)
        expected = kind_of_outcome(lambda given=given: call(*given))
        dynamo.reset()
        assert kind_of_outcome(lambda given=given, call=call: dynamo.compile(call, backend=backend)(*given)) == expected, sample
