"""A few good plans that are unlike each other, to be combined by twos (`solvers.free.annealing`).

Plans are alike if they cut the same hyperedges: that does not depend on how identical devices are numbered. A plan that
comes when there are as many as there may be takes the place of the one most like it among those that are no better, so
that plans become better without becoming the same (Sanders and Schulz, "Distributed Evolutionary Graph Partitioning",
ALENEX 2012).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from solvers.free.cpu_share import BoolArray
from solvers.free.flat_problem import FlatProblem, count_ends, largest_load
from solvers.problem.contraction import IntArray

MOST_PLANS = 16
SAME = 1e-9
"""Plans that cut the same hyperedges are one where their values differ by no more than this share."""


@dataclass(frozen=True)
class _Plan:
    value_ms: float
    device: IntArray
    is_cut: BoolArray

    @classmethod
    def of(cls, problem: FlatProblem, device: IntArray) -> Self:
        is_cut = count_ends(problem, device).max(axis=1) < problem.net_size
        return cls(float(largest_load(problem, device)), device.copy(), is_cut)

    def is_same(self, other: Self) -> bool:
        is_equal = abs(self.value_ms - other.value_ms) <= SAME * self.value_ms
        return is_equal and bool((self.is_cut == other.is_cut).all())

    def unlikeness(self, other: Self) -> int:
        return int((self.is_cut ^ other.is_cut).sum())


class Population:
    """Plans of one problem, at most MOST_PLANS, the best one first."""

    def __init__(self, problem: FlatProblem) -> None:
        """Begin with none."""
        self._problem = problem
        self._plans: list[_Plan] = []

    def __len__(self) -> int:
        """Return how many plans there are."""
        return len(self._plans)

    @property
    def value_ms(self) -> float:
        """The largest load of the best plan; infinite where there is none."""
        return self._plans[0].value_ms if self._plans else math.inf

    @property
    def devices(self) -> list[IntArray]:
        """The device of each block in each plan, the best one first."""
        return [plan.device for plan in self._plans]

    def add(self, device: IntArray) -> None:
        """Take in a valid plan, the device of each block, unless it is one of them or worse than all."""
        new, plans = _Plan.of(self._problem, device), self._plans
        if any(new.is_same(plan) for plan in plans):
            return
        if len(plans) == MOST_PLANS:
            no_better = [plan for plan in plans if plan.value_ms >= new.value_ms]
            if not no_better:
                return
            most_alike = min(no_better, key=new.unlikeness)
            plans = [plan for plan in plans if plan is not most_alike]
        self._plans = sorted([*plans, new], key=lambda plan: plan.value_ms)

    def pair(self, rng: np.random.Generator) -> tuple[IntArray, IntArray] | None:
        """Return two plans at random, good ones more often, the better one first; None where there are not two.

        Each is the better one of two that are drawn.
        """
        n = len(self._plans)
        if n < 2:
            return None
        one, other = min(rng.integers(n, size=2).tolist()), min(rng.integers(n - 1, size=2).tolist())
        other += other >= one
        return self._plans[min(one, other)].device, self._plans[max(one, other)].device
