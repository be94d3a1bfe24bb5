# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The arithmetic of the native bench: what stands for many rounds, and how sure a ratio is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Sequence

# A neighbour on the machine only ever adds to what a round costs: the lower quartile is what
# stands for all of them.
QUANTILE = 0.25
# A ratio is known when its interval is narrower than this, of the ratio.
PRECISION = 0.03
CONFIDENCE = 0.95
RESAMPLES = 1000
# Fewer rounds than these say nothing of their own spread.
MIN_ROUNDS = 10


def quantile(values: Sequence[float], part: float = QUANTILE) -> float:
    """So large a part of the values is below it; between two of them by their distance."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Sequence[float]) -> float:
    """From the lower to the upper quartile, of the lower."""
    low = quantile(values)
    return (quantile(values, 1 - QUANTILE) - low) / low if low else 0.0


@dataclass(frozen=True)
class Ratio:
    """How many times more one costs than another, and the interval that it is in."""

    value: float
    low: float
    high: float
    rounds: int

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.value

    @property
    def known(self) -> bool:
        return self.rounds >= MIN_ROUNDS and self.width < PRECISION


def ratio(of: dict[int, float], to: dict[int, float], seed: int = 0) -> Ratio | None:
    """Of the costs by round; a round that one of them lacks does not count. The interval is a
    bootstrap's: rounds are drawn, not single costs, as what disturbs a round disturbs both."""
    rounds = sorted(of.keys() & to.keys())
    if not rounds:
        return None
    chance = random.Random(seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(rounds, k=len(rounds))
        found.append(quantile([of[r] for r in drawn]) / quantile([to[r] for r in drawn]))
    tail = (1 - CONFIDENCE) / 2
    value = quantile([of[r] for r in rounds]) / quantile([to[r] for r in rounds])
    return Ratio(value, quantile(found, tail), quantile(found, 1 - tail), len(rounds))
