"""Makes `import torchvision` and `import timm` work beside a torch that their compiled operators were not built for.

A torchvision wheel loads `_C_stable.so` on import and goes on without it when it can't be loaded. Two of its meta
functions are registered all the same, and fail because the operators they belong to were never declared. Declaring the
two schemas is enough for every model without detection heads; calling one of them still raises, since neither has a kernel.
"""

from __future__ import annotations

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def declare() -> None:
    """Import torchvision, declaring its operators first if its own library could not. Call before importing timm."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        library = torch.library.Library("torchvision", "DEF")
        for schema in _SCHEMAS:
            library.define(schema)
        _declared.append(library)  # a Library undoes its definitions when it is collected
        import torchvision
    assert torchvision.__name__ == "torchvision"
