"""Boxes above a threshold, sorted and suppressed: shapes that depend on data.

first: the lines where shapes depend on data, the commonest first
says: graph breaks at 2 lines, most at detector.py:29: value of a tensor needed | detector.py:22
report: compiled, some-breaks
"""

import torch


def overlaps(box, boxes):
    low = torch.maximum(box[:2], boxes[:, :2])
    high = torch.minimum(box[2:], boxes[:, 2:])
    both = (high - low).clamp(min=0).prod(1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return both / (area + (box[2:] - box[:2]).prod() - both)


@torch.compile(backend="eager")
def detect(boxes, scores, threshold):
    keep = scores > threshold
    boxes, scores = boxes[keep], scores[keep]
    order = scores.argsort(descending=True)
    found = []
    while order.numel() > 0:
        first = order[0]
        found.append(first)
        rest = order[1:]
        order = rest[overlaps(boxes[first], boxes[rest]) < 0.5]
    return boxes[torch.stack(found)]


boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2.1], [3, 3, 4, 4], [0, 0, 9, 9]])
print(detect(boxes, torch.tensor([0.9, 0.8, 0.7, 0.1]), 0.5).tolist())
