"""Philox4x32-10, the generator of torch's GPUs, on tensors of int64 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, 2011)."""

from __future__ import annotations

import torch

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85  # of the key, from round to round
LOW = 0xFFFFFFFF


def words(seed: torch.Tensor, counter: torch.Tensor, thread: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Four words of 32 bits for each pair of counters."""
    x, y, z, w = counter & LOW, (counter >> 32) & LOW, thread & LOW, (thread >> 32) & LOW
    first, second = seed & LOW, (seed >> 32) & LOW
    for _ in range(ROUNDS):
        a, b = x * MULTIPLIERS[0], z * MULTIPLIERS[1]  # all 64 bits, of which the last is the sign
        x, y, z, w = ((b >> 32) & LOW) ^ y ^ first, b & LOW, ((a >> 32) & LOW) ^ w ^ second, a & LOW
        first, second = (first + STEPS[0]) & LOW, (second + STEPS[1]) & LOW
    return x, y, z, w


def philox(seed: torch.Tensor, counter: torch.Tensor, thread: torch.Tensor, lane: torch.Tensor) -> torch.Tensor:
    """Numbers in (0, 1], as curand makes them: float32. `lane` is which of four words is taken."""
    x, y, z, w = torch.broadcast_tensors(*words(seed, counter, thread))
    word = torch.where(lane < 2, torch.where(lane == 0, x, y), torch.where(lane == 2, z, w))
    return number_of(word)


def number_of(word: torch.Tensor) -> torch.Tensor:
    """The number in (0, 1] that a word of 32 bits stands for: float32, rounded once more after the addition."""
    return word.to(torch.float32) * 2.0**-32 + 2.0**-33
