"""Tests of the C extension alone: whatever handlers the package has installed are put aside meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dynamo import _C


@pytest.fixture(autouse=True)
def _no_handlers() -> Iterator[None]:
    frame, frozen = _C.set_frame_handler(None), _C.set_frozen_handler(None)
    _C.reset_frames()
    yield
    _C.set_frame_handler(frame)
    _C.set_frozen_handler(frozen)
    _C.reset_frames()
    assert not _C.hook_active()
