"""Fake tensors: shape propagation without data and without torch's compiler."""

from __future__ import annotations

from dynamo.fake.errors import DataDependent, FakeError, NoMeta, Unsupported
from dynamo.fake.mode import FakeMode
from dynamo.fake.standins import plain_shapes
from dynamo.fake.tensor import FakeTensor

__all__ = ["DataDependent", "FakeError", "FakeMode", "FakeTensor", "NoMeta", "Unsupported", "plain_shapes"]
