"""Proof that no free split has a max-load up to T: prices of blocks that the devices cannot pay.

Whatever prices (of any sign) the blocks have, a split within T shares all of them among k_g accelerators of each kind
g, each holding a set whose load there is at most T, and l CPUs, which hold blocks of l T of CPU time in total. So if

    sum_b price_b  >  sum_g k_g z_g(price, T) + z_cpu(price, T),

there is no split of max-load <= T. Here z_g is the price of the dearest contents of an accelerator of kind g
(`solvers.free.pricing`) and z_cpu that of the dearest blocks for the CPUs, cut into parts as they like (a
fractional knapsack). With prices equal to the work of the blocks this is the bound of total work, sharpened by what an
accelerator can really hold. The best prices solve the dual of a linear program with a column per contents S of an
accelerator within T:

    minimise s   subject to   sum_g sum_{S with b} x_gS + y_b = 1 for each block b,   sum_S x_gS <= k_g s,
                              sum_b q_b y_b <= l T,   x >= 0,   0 <= y_b <= 1, y_b = 0 if q_b > T,

and s > 1 is the proof. Columns are generated: the dual values of the rows are prices, the dearest contents at these
prices the next columns. Every round gives a bound of its own (Farley 1990).
`solvers.free.price_search` finds the prices.

Any prices prove something, if not at T then at a lower threshold: `provable_threshold` finds it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from solvers.free.patterns import Arcs, contents_diagram
from solvers.free.pricing import Dearest, dearest_contents
from solvers.model.deployment import Deployment
from solvers.problem.contraction import Contraction, FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]

SETS_PER_ROUND = 12
"""Contents of one kind that are remembered in a round."""

MARGIN = 1e-8
"""A proof must hold by this relative margin, far above rounding."""

THRESHOLD_STEPS = 10
THRESHOLD_EFFORT = 1


@dataclass(frozen=True, slots=True)
class Certificate:
    """Prices, and the ratio of what the CPUs leave of their sum to what accelerators can pay: above 1 a proof."""

    price: FloatArray
    ratio: float


class DeviceContents:
    """The sets an accelerator can hold, those met so far, and proofs with them that a threshold is out of reach."""

    def __init__(self, contraction: Contraction, deployment: Deployment, check: Callable[[], object] = object) -> None:
        """Build the diagrams; there must be an accelerator. What `check`, called often, raises ends the work."""
        self._num_cpus = deployment.num_cpus
        self._cpu_ms = contraction.cpu_ms
        self._num_blocks = contraction.num_blocks
        parts = _by_kind(contraction, deployment)
        self.counts = [count for count, _ in parts]
        self._arcs: list[Arcs] = []
        for _, part in parts:
            order = self._arcs[0].order if self._arcs else None
            self._arcs.append(contents_diagram(part, check=check, order=order).arcs)
        self.columns: dict[tuple[int, bytes], tuple[BoolArray, float]] = {}

    @property
    def order(self) -> IntArray:
        """The blocks in the order of the diagrams, in which neighbours belong together."""
        return self._arcs[0].order

    def add(self, kind: int, contents: BoolArray, load_ms: float) -> bool:
        """Remember contents of an accelerator of a kind; say whether they are new."""
        key = kind, np.packbits(contents).tobytes()
        if key in self.columns:
            return False
        self.columns[key] = (contents, load_ms)
        return True

    def certify(self, price: FloatArray, threshold_ms: float, effort: int) -> tuple[Certificate, list[Dearest]]:
        """Return what prices prove at a threshold, with the dearest contents of an accelerator of each kind."""
        dearest = [dearest_contents(arcs, price, threshold_ms, effort) for arcs in self._arcs]
        left = float(price.sum()) - self.paid_by_cpus(price, threshold_ms)[0]
        left -= MARGIN * float(np.abs(price).sum())
        paid = self.paid(dearest)
        return Certificate(price, left / paid if paid > 0 else math.inf if left > 0 else 0.0), dearest

    def paid(self, dearest: list[Dearest]) -> float:
        """Return the most that all accelerators pay, by the dearest contents of each kind."""
        return sum(count * kind.bound for count, kind in zip(self.counts, dearest, strict=True))

    def provable_threshold(
        self, price: FloatArray, low_ms: float, high_ms: float, proceed: Callable[[], bool] = lambda: True
    ) -> float:
        """Return a threshold from `low_ms` to `high_ms` that these prices prove out of reach, or `low_ms` itself.

        `proceed` is asked before every trial whether there is time for it.
        """
        threshold = high_ms
        for _ in range(THRESHOLD_STEPS):
            if not proceed():
                break
            if self.certify(price, threshold, THRESHOLD_EFFORT)[0].ratio > 1:
                low_ms = threshold
                if threshold == high_ms:
                    break
            else:
                high_ms = threshold
            threshold = 0.5 * (low_ms + high_ms)
        return low_ms

    def paid_by_cpus(self, price: FloatArray, threshold_ms: float) -> tuple[float, FloatArray]:
        """Return the most that CPUs can pay within T, and which part of each block they then hold."""
        part = np.zeros(self._num_blocks)
        if not self._num_cpus:
            return 0.0, part
        q = self._cpu_ms
        candidates = np.flatnonzero((price > 0) & (q <= threshold_ms * (1 + MARGIN)))
        with np.errstate(divide="ignore", over="ignore"):
            order = candidates[np.argsort(-price[candidates] / q[candidates], kind="stable")]
        room = self._num_cpus * threshold_ms * (1 + MARGIN)
        before = np.cumsum(q[order]) - q[order]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part[order] = np.where(q[order] > 0, np.clip((room - before) / q[order], 0.0, 1.0), 1.0)
        return float(part @ price), part

    def take(self, dearest: list[Dearest], threshold_ms: float) -> list[tuple[int, BoolArray]]:
        """Remember the contents within T; return those that are new, with their kinds."""
        new: list[tuple[int, BoolArray]] = []
        for g, kind in enumerate(dearest):
            most = len(new) + SETS_PER_ROUND
            for contents, load in zip(kind.sets, kind.loads, strict=True):
                if len(new) < most and load <= threshold_ms and self.add(g, contents, float(load)):
                    new.append((g, contents))
        return new


def _by_kind(contraction: Contraction, deployment: Deployment) -> list[tuple[int, Contraction]]:
    """Return for each kind of accelerators how many there are, and the contraction with their times and transfers."""
    if not deployment.classes:
        return [(deployment.num_accelerators, contraction)]
    count_of: dict[tuple[float, ...], int] = {}
    for ms, one in zip(contraction.class_ms, deployment.classes, strict=True):
        if one.count:
            nature = (one.link_speed, *ms.tolist())
            count_of[nature] = count_of.get(nature, 0) + one.count
    return [
        (
            count,
            replace(
                contraction,
                accelerator_ms=np.array(ms),
                hyperedges=tuple(replace(h, weight_ms=h.weight_ms / link_speed) for h in contraction.hyperedges),
            ),
        )
        for (link_speed, *ms), count in count_of.items()
    ]
