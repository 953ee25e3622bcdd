"""Programs of kinds that kernels meet seldom, on the device: values, gradients, what is written and what is drawn are eager's."""

from __future__ import annotations

import pytest

import tests.gpu.rare  # noqa: F401  # more rows
from tests.gpu.classes import CLASSES, check

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("gradients", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_class(name: str, gradients: bool) -> None:
    check(name, "cuda", gradients=gradients)
