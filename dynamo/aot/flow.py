"""Maximum flow and minimum cut: Dinic's algorithm (E. A. Dinic, 1970), with an explicit stack."""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class Network:
    """A directed network of numbered nodes with integer capacities."""

    def __init__(self, nodes: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(nodes)]  # per node: ids of its edges
        self.to: list[int] = []
        self.left: list[int] = []  # what an edge can still carry; edge e ^ 1 is its reverse

    def connect(self, a: int, b: int, capacity: int) -> None:
        self.edges[a].append(len(self.to))
        self.to.append(b)
        self.left.append(capacity)
        self.edges[b].append(len(self.to))
        self.to.append(a)
        self.left.append(0)

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self.edges)
        level[source] = 0
        queue = deque((source,))
        while queue:
            at = queue.popleft()
            for e in self.edges[at]:
                if self.left[e] and level[self.to[e]] < 0:
                    level[self.to[e]] = level[at] + 1
                    queue.append(self.to[e])
        return level

    def _before(self, sink: int) -> list[bool]:
        """The nodes from which nothing more can flow to the sink."""
        full = [True] * len(self.edges)
        full[sink] = False
        todo = [sink]
        while todo:
            at = todo.pop()
            for e in self.edges[at]:
                if self.left[e ^ 1] and full[self.to[e]]:
                    full[self.to[e]] = False
                    todo.append(self.to[e])
        return full

    def _augment(self, source: int, sink: int, level: list[int], tried: list[int]) -> int:
        """Push along one shortest path; 0 when there is none left."""
        path: list[int] = []
        at = source
        while at != sink:
            edges = self.edges[at]
            while tried[at] < len(edges):
                e = edges[tried[at]]
                if self.left[e] and level[self.to[e]] == level[at] + 1:
                    break
                tried[at] += 1
            else:
                if not path:
                    return 0
                back = path.pop()
                at = self.to[back ^ 1]
                tried[at] += 1
                continue
            path.append(e)
            at = self.to[e]
        pushed = min(self.left[e] for e in path)
        for e in path:
            self.left[e] -= pushed
            self.left[e ^ 1] += pushed
        return pushed

    def cut(self, source: int, sink: int) -> tuple[int, list[bool]]:
        """(value of the minimum cut, which nodes are on the source's side). Of several cuts, the one nearest to the sink."""
        total = 0
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return total, self._before(sink)
            tried = [0] * len(self.edges)
            while pushed := self._augment(source, sink, level, tried):
                total += pushed
