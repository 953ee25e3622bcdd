"""What differs between the versions of torch we run on: one named flag per behaviour, with its evidence; and every private name we use.

Everything else asks a flag or reads a name that has its row here, never `torch.__version__`. A new torch shows what it lacks in
`dynamo-debug doctor` and in `tests/test_torch_facts.py`.
"""

from __future__ import annotations

import types
from typing import Final

import torch

# `torch.autograd.Function.__dict__["apply"]`: a Python classmethod up to 2.14, which looks for functorch levels and calls the C one of the
# base class; a `classmethod_descriptor` from 2.15 on, where C does both.
FUNCTION_APPLY_IS_C: Final = isinstance(torch.autograd.Function.__dict__["apply"], types.ClassMethodDescriptorType)
