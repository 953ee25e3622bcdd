"""Where the values of fakes come from: a root of its storage, or a view step away from another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.fx import Node

from dynamo.aot.facts import GRAD, MODES, Step, ambient_mode
from dynamo.fake import FakeTensor

aten = torch.ops.aten


class Track:
    """Where the value of one fake comes from."""

    # own_mode: that in which the view was made; mode: as autograd counts it, also with those of what it is a view of
    __slots__ = (
        *("fake", "is_given", "is_shadow", "made", "mode", "node", "own_mode", "parent", "resized", "root", "step", "turned"),
        *("turned_history", "version", "writes"),
    )

    def __init__(self, fake: FakeTensor, node: Node, parent: Track | None = None, step: Step | None = None) -> None:
        self.fake = fake  # for a shadow, only its shape and device
        self.is_given = node.op == "placeholder"  # an input of the graph, whose memory is the caller's
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
        self.own_mode = self.mode = GRAD
        if parent is not None and step is not None and not step.is_apart:
            self.own_mode = parent.own_mode if parent.is_shadow else ambient_mode()  # what turns in place stays what it was
            self.mode = max(self.own_mode, parent.mode, key=MODES.index)

    def turn(self, fake: FakeTensor) -> bool:
        """That view of this root gets another shape in place. Does autograd know of it, if it has a history?"""
        self.turned += 1
        is_recorded = ambient_mode() == GRAD
        self.turned_history |= fake.requires_grad and is_recorded
        return is_recorded or not fake.requires_grad or fake.is_leaf

    def turned_by(self, step: Step, fake: FakeTensor, node: Node) -> tuple[Track, Step]:
        """What `fake`, which was this and has got its shape by `step` in place, is a view of, by which step.

        A detached tensor stays one: detached from a view, and no view of what it was.
        """
        if self.parent is None or self.step is None or self.step.op is not aten.detach.default:
            return self, step
        turned = Track(FakeTensor(fake.meta.detach(), fake.fake_device), node, self.parent, step)
        turned.is_shadow = True
        return turned, self.step

    def base(self) -> Track:
        """The nearest on the way up that autograd knows as a view of nothing."""
        at = self
        while at.parent is not None and not (at.step is not None and at.step.is_apart):
            at = at.parent
        return at

    def is_below(self, top: Track) -> bool:
        at: Track | None = self
        while at is not None and at is not top:
            at = at.parent
        return at is top

    def told(self, steps: Sequence[Step], has_history: bool) -> tuple[Step, ...]:
        """The last steps to this fake, which know what counts its own writes, and where a history ends."""
        found: list[Step] = []
        at: Track | None = self
        ends = has_history and self.own_mode == GRAD != self.mode
        for step in reversed(steps):
            while at is not None and at.step is None:
                at = at.parent
            if at is not None:
                step = replace(step, mode=at.own_mode if ends and at.own_mode != GRAD else "", own_count=at.counts_apart())
                at = at.parent
            found.append(step)
        return tuple(found[::-1])

    def counts_apart(self) -> bool:
        """Does it count its own writes alone? No tensor tells but by counting."""
        above = self.parent
        while above is not None and above.is_shadow:
            above = above.parent
        is_detached = self.step is not None and self.step.op is aten.detach.default
        if above is None or not is_detached or self.fake.is_inference() or above.fake.is_inference():
            return False
        version, before = self.fake._version, above.fake._version
        torch._C._autograd._unsafe_set_version_counter((self.fake,), (version + 1,))
        is_apart = above.fake._version == before
        torch._C._autograd._unsafe_set_version_counter((self.fake,), (version,))
        return is_apart

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
