"""Where the values of fakes come from: a root of its storage, or a view step away from another one."""

from __future__ import annotations

import torch
from torch.fx import Node

from dynamo.aot.facts import Step
from dynamo.fake import FakeTensor

aten = torch.ops.aten


def records_history() -> bool:
    """Whether autograd records what runs now: in inference mode it does not under `enable_grad` either."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


class Track:
    """Where the value of one fake comes from."""

    # grad_mode: gradients were on when the view was made, as was what it is a view of: else autograd refuses writes to it
    __slots__ = (
        *("fake", "grad_mode", "is_shadow", "made", "node", "parent", "resized", "root", "step", "turned", "turned_history", "version"),
        "writes",
    )

    def __init__(self, fake: FakeTensor, node: Node, parent: Track | None = None, step: Step | None = None) -> None:
        self.fake = fake  # for a shadow, only its shape and device
        self.is_shadow = False
        self.node = node
        self.parent = parent
        self.step = step
        self.root: Track = self if parent is None else parent.root
        self.writes = 0  # of a root: how often its storage was written
        self.turned = 0  # of a root: how often a view of it got another shape in place
        self.turned_history = False  # of a root: whether autograd recorded one of those
        self.resized = 0  # of a root: the write with which it got another shape
        self.made = self.version = self.root.writes  # `version` becomes that of the last write when the value is read
        self.grad_mode: bool = parent is None or step is None or step.is_apart or (parent.grad_mode and records_history())

    def turn(self, fake: FakeTensor) -> bool:
        """That view of this root gets another shape in place. Does autograd know of it, if it has a history?"""
        self.turned += 1
        is_recorded = records_history()
        self.turned_history |= fake.requires_grad and is_recorded
        return is_recorded or not fake.requires_grad or fake.is_leaf

    def is_below(self, top: Track) -> bool:
        at: Track | None = self
        while at is not None and at is not top:
            at = at.parent
        return at is top

    def steps(self, top: Track | None = None) -> list[Step]:
        """From the root to this fake, or from `top`: an alias of the root, whose history is no concern of what isn't a view of it."""
        found: list[Step] = []
        at = self
        while at is not top and at.parent is not None and at.step is not None:
            found.append(at.step)
            at = at.parent
        if top is not None and at is not top:
            found.append(Step(aten.detach.default))
        return found[::-1]
