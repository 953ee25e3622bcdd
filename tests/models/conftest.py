"""Every model test also holds the compiler to a bound on machine code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.inductor.code_size import LIMIT, built_sizes


@pytest.fixture(autouse=True)
def _kernels_stay_small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with built_sizes(monkeypatch) as sizes:
        yield
    large = {name: size for name, size in sizes.items() if size > LIMIT}
    assert not large, f"kernels of over {LIMIT} bytes of machine code: {large}"
