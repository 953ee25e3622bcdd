"""What goes wrong with a GPU ends as the rows of `tests/gpu/failures.py` say."""

from __future__ import annotations

import pytest

from tests.gpu.failures import CASES, run_apart

pytestmark = pytest.mark.gpu


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", CASES)
def test_a_failure(name: str) -> None:
    code, said = run_apart(name)
    assert code == 0, said
