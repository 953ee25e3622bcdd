"""The generators find each class of defects again when its mechanism is taken out."""

from __future__ import annotations

import pytest

from tests.generator.defects import DEFECTS, LIMIT, find


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.internal_error  # with the mechanism gone, a verifier may be what notices
@pytest.mark.parametrize("name", DEFECTS)
def test_is_found_again(name: str) -> None:
    assert find(DEFECTS[name]) is not None, f"hidden from {LIMIT} programs of {DEFECTS[name].family}"
