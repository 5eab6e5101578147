"""Good plans that differ from each other, to be combined in pairs (`solvers.free.plans.annealing`).

The distance of two plans is the number of hyperedges that one of them cuts and the other does not, whatever numbers
identical devices have. A plan that comes to a full population replaces the nearest of those that are no better, so that
plans improve and stay diverse (Sanders and Schulz, "Distributed Evolutionary Graph Partitioning", ALENEX 2012).

Combining makes plans more and more like the best one all the same. So when a population has not improved for a while,
another starts without its plans, and when that one stops improving too, the best of both are united (islands: Cohoon et
al., "Punctuated Equilibria: A Parallel Genetic Algorithm", ICGA 1987).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from solvers.free.cpu_share import BoolArray
from solvers.free.plans.flat_problem import FlatProblem, count_ends, largest_load
from solvers.problem.contraction import IntArray

MOST_PLANS = 16
SAME = 1e-9
"""Plans that cut the same hyperedges are one where their values differ by no more than this share."""
STALE_ROUNDS = 8
"""Rounds in turn without a better plan after which a population stops."""
MOST_KEPT = 4
"""Plans of a population that go on to the next one."""


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

    def distance(self, other: Self) -> int:
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
            nearest = min(no_better, key=new.distance)
            plans = [plan for plan in plans if plan is not nearest]
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


class Islands:
    """The population that plans come from now, and the best plans of the one before."""

    def __init__(self, problem: FlatProblem, device: IntArray) -> None:
        """Begin with one valid plan, the best one known."""
        self._problem = problem
        self._population = Population(problem)
        self._population.add(device)
        self._kept: list[IntArray] = []
        self._stale_rounds, self._least_ms = 0, math.inf

    @property
    def is_apart(self) -> bool:
        """Whether the population has started without the best plan known, while the best of the one before are kept."""
        return bool(self._kept)

    @property
    def devices(self) -> list[IntArray]:
        """The device of each block in each plan, also of the population before."""
        return [*self._kept, *self._population.devices]

    def add(self, device: IntArray) -> None:
        """Take a valid plan into the population."""
        self._population.add(device)

    def pair(self, rng: np.random.Generator) -> tuple[IntArray, IntArray] | None:
        """Return two plans of the population, as `Population.pair` does."""
        return self._population.pair(rng)

    def end_round(self, best: IntArray, *, may_be_apart: bool) -> None:
        """Change to another population when this one has stopped improving; `best` is the best plan known.

        One that is apart needs plans from elsewhere: without them, or if it has stopped too, both are united.
        """
        value_ms = self._population.value_ms
        self._stale_rounds = 0 if value_ms < self._least_ms else self._stale_rounds + 1
        self._least_ms = min(self._least_ms, value_ms)
        has_stopped = self._stale_rounds >= STALE_ROUNDS
        if self.is_apart and (has_stopped or not may_be_apart):
            self._start([best, *self._kept, *self._population.devices[:MOST_KEPT]], [])
        elif has_stopped and may_be_apart:
            self._start([], self._population.devices[:MOST_KEPT])

    def _start(self, devices: list[IntArray], kept: list[IntArray]) -> None:
        self._population = Population(self._problem)
        for device in devices:
            self._population.add(device)
        self._kept = kept
        self._stale_rounds, self._least_ms = 0, math.inf
