"""The form of an operator that writes nothing."""

from __future__ import annotations

import pytest
import torch

from dynamo.ops.facts import unwritten_form

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "form"),
    [
        (aten.add.out, aten.add.Tensor),
        (aten.add_.Scalar, aten.add.Scalar),
        (aten.all.dims_out, aten.all.dims),  # `all.dim` has the same names, and takes one dimension
        (aten.lerp.Tensor_out, aten.lerp.Tensor),
        (aten._fused_adam_.default, aten._fused_adam.default),
        (aten.zeros.out, None),  # `dtype` and what follows are asked of the new tensor alone
    ],
)
def test_a_form_has_the_names_and_types_of_the_arguments(op, form) -> None:
    assert unwritten_form(op) is form
