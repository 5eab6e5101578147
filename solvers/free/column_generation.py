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
prices the next columns. Every round gives a bound of its own (Farley 1990), also at prices between the best known and
the latest (smoothing: Wentges 1997), which keeps them from jumping. Before the first linear program a subgradient
ascent (Polyak 1969) finds prices and columns to begin with. That is the better way where blocks are few; where they are
many, prices keep jumping, and `solvers.free.price_search` finds them.

Any prices prove something, if not at T then at a lower threshold: `provable_thresholds` finds it.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

import numpy as np
import numpy.typing as npt

from solvers.free.cpu_share import BoolArray, CpuShare
from solvers.free.diagram import Arcs
from solvers.free.patterns import Paths, contents_diagram
from solvers.free.pricing import EXACT, GAP, Dearest, Pricing, Tables, most_within
from solvers.milp.highs import GrowingProgram
from solvers.model.deployment import Deployment
from solvers.problem.contraction import Contraction, FloatArray, IntArray

SETS_PER_ROUND = 12
"""Columns of one kind that enter the linear program in a round."""

PRICE_LIMIT = 3.0
"""Prices are at most so many times what one device of the fastest kind pays on average."""

STEPS = ((0.7, (0, 1)), (0.3, (0, 1)), (0.0, tuple(range(EXACT + 1))))
"""Share of the best prices known in the prices that are tried, and efforts, in turn until columns are found."""

ASCENT_ROUNDS = 1500
ASCENT_TARGET = 1.03
ASCENT_EFFORTS, LOOSE = (1, 3), 0.1
"""Efforts of an ascent: the second from when the first leaves more than this between bound and dearest contents."""
ASCENT_PATIENCE, FAR_RATIO, FAR_PATIENCE = 20, 0.8, 100
"""Rounds without a better ratio after which steps get shorter, and more of them while the ratio is far from a proof."""

PROGRAM_SECONDS = 1.0
"""A linear program that takes longer ends the attempt: nothing can be reported while it runs."""

MARGIN = 1e-8
"""A proof must hold by this relative margin, far above rounding."""

RESOLUTION = 2.0**-4
"""Thresholds are told apart by this share of their interval: the next ones come from better prices."""
TABLE_STEPS = 30
QUICK_EFFORT = 1


@dataclass(frozen=True, slots=True)
class Certificate:
    """Prices, and the ratio of what the CPUs leave of their sum to what accelerators can pay: above 1 a proof."""

    price: FloatArray
    ratio: float


Certified = tuple[Certificate, list[Dearest]]
"""What prices prove, and the dearest contents of an accelerator of each kind."""


class DeviceContents:
    """The sets an accelerator can hold, those met so far, and proofs with them that a threshold is out of reach."""

    def __init__(
        self,
        contraction: Contraction,
        deployment: Deployment,
        check: Callable[[], object] = object,
        paths: Paths | None = None,
    ) -> None:
        """Build the diagrams; there must be an accelerator. What `check`, called often, raises ends the work.

        With `paths` contents are convex sets; CPUs are then a kind of devices like the accelerators.
        """
        self.check = check
        self.cpus = CpuShare.undivided(deployment.num_cpus if paths is None else 0, contraction.cpu_ms)
        self._num_blocks = contraction.num_blocks
        parts = _by_kind(contraction, deployment)
        order = None
        if paths is not None and deployment.num_cpus:
            on_cpu = replace(contraction, accelerator_ms=contraction.cpu_ms, hyperedges=())
            k = deployment.num_accelerators
            parts.append((tuple(range(k, k + deployment.num_cpus)), on_cpu))
        self.devices = [devices for devices, _ in parts]
        self.counts = [len(devices) for devices in self.devices]
        self._arcs: list[Arcs] = []
        self.forgets_paths = False
        for _, part in parts:
            diagram = contents_diagram(part, check=check, order=order, paths=paths)
            self._arcs.append(diagram.arcs)
            self.forgets_paths |= diagram.forgets_paths
            order, paths = diagram.arcs.order, diagram.paths
        # How many devices of the fastest kind all accelerators are.
        runs = np.isfinite([part.accelerator_ms for _, part in parts]).all(axis=0)
        total = [float(part.accelerator_ms[runs].sum()) for _, part in parts]
        speeds = [min(total) / ms if ms else 1.0 for ms in total]
        self._equivalents = sum(count * speed for count, speed in zip(self.counts, speeds, strict=True))
        self.columns: dict[tuple[int, bytes], tuple[BoolArray, float]] = {}
        self.effort, self.num_looks = 0, 0
        """The effort of pricing that led to something last, and how often pricing was asked for contents."""

    def where_cpus(self, cpus: CpuShare) -> Self:
        """Return the same contents, those met by either known to both, with another share of the CPUs."""
        divided = copy(self)
        divided.cpus = cpus
        return divided

    @property
    def num_nodes(self) -> int:
        """Nodes of all its diagrams together."""
        return sum(len(arcs.target) for arcs in self._arcs)

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

    def known(self, kind: int, threshold_ms: float, most: int) -> npt.NDArray[np.float32]:
        """Return the latest contents of a kind within T, a row of ones and zeros for each; safe from any thread."""
        latest = islice(reversed(self.columns.copy().items()), most)
        rows = [row for (g, _), (row, load) in latest if g == kind and load <= threshold_ms * (1 + MARGIN)]
        return np.array(rows, np.float32).reshape(len(rows), self._num_blocks)

    def pricings(self, price: FloatArray, threshold_ms: float) -> list[Pricing]:
        """Begin to look for the dearest contents of an accelerator of each kind."""
        return [Pricing(arcs, price, threshold_ms, self.check) for arcs in self._arcs]

    def dearest(
        self,
        price: FloatArray,
        threshold_ms: float,
        effort: int,
        gap: float = GAP,
        floors: FloatArray | None = None,
        ceiling: float = math.inf,
        pricings: list[Pricing] | None = None,
    ) -> list[Dearest]:
        """Return the dearest contents of an accelerator of each kind, or such as are dearer than the ceiling.

        None below a kind's floor need be told apart. `pricings` of these prices and this threshold, which were begun
        with less effort, are gone on with.
        """
        floor_of = [-math.inf] * len(self._arcs) if floors is None else floors.tolist()
        begun = pricings or self.pricings(price, threshold_ms)
        return [kind.dearest(effort, gap, floor, ceiling) for kind, floor in zip(begun, floor_of, strict=True)]

    def dearest_of(
        self,
        kind: int,
        price: FloatArray,
        threshold_ms: float,
        effort: int,
        tables: Tables,
        check: Callable[[], object],
    ) -> Dearest:
        """Return dear contents of an accelerator of one kind, priced with these tables, beside proofs."""
        return Pricing(self._arcs[kind], price, threshold_ms, check, tables).dearest(effort)

    def certify(
        self,
        price: FloatArray,
        threshold_ms: float,
        effort: int,
        gap: float = GAP,
        floors: FloatArray | None = None,
        ceiling: float = math.inf,
        pricings: list[Pricing] | None = None,
    ) -> Certified:
        """Return what prices prove at a threshold, with the dearest contents of an accelerator of each kind."""
        dearest = self.dearest(price, threshold_ms, effort, gap, floors, ceiling, pricings)
        left = self._left_by_cpus(price, threshold_ms)
        paid = self.paid(dearest)
        return Certificate(price, left / paid if paid > 0 else math.inf if left > 0 else 0.0), dearest

    def _left_by_cpus(self, price: FloatArray, threshold_ms: float) -> float:
        """Return the sum of prices without what CPUs can pay, a margin below."""
        left = float(price.sum()) - self.cpus.dearest(price, threshold_ms)[0]
        return left - MARGIN * float(np.abs(price).sum())

    def paid(self, dearest: list[Dearest]) -> float:
        """Return the most that all accelerators pay, by the dearest contents of each kind."""
        return sum(count * kind.bound for count, kind in zip(self.counts, dearest, strict=True))

    def provable_thresholds(
        self,
        price: FloatArray,
        low_ms: float,
        high_ms: float,
        proceed: Callable[[], bool] = lambda: True,
        effort: int = QUICK_EFFORT,
    ) -> Iterator[float]:
        """Yield ever larger thresholds from `low_ms` to `high_ms` that these prices prove out of reach.

        `proceed` is asked before every trial whether there is time for it. The first one is the largest that a table of
        all loads proves at once, which may be `high_ms`; above it the interval is halved, and `high_ms` is not tried
        again: there is a plan within it, or the prices come of a search that did not prove it.
        """
        if not proceed():
            return
        resolution_ms = (high_ms - low_ms) * RESOLUTION
        most = [most_within(arcs, price, high_ms, self.check) for arcs in self._arcs]
        by_table_ms = self._largest(lambda t: self._is_proven(price, t, [of(t) for of in most]), low_ms, high_ms)
        if by_table_ms > low_ms:
            yield by_table_ms
            low_ms = by_table_ms
        while high_ms - low_ms > resolution_ms and proceed():
            threshold = 0.5 * (low_ms + high_ms)
            # Of accelerators of one kind it is only asked whether some can pay their part.
            part = self._left_by_cpus(price, threshold) / self.counts[0]
            is_one_kind = len(self.counts) == 1
            # Pricing ends a slack above a floor, which must be less than what a proof takes, however small a part is.
            floors = np.array([part - MARGIN * float(np.abs(price).sum())]) if is_one_kind else None
            ceiling = part if is_one_kind else math.inf
            if self.certify(price, threshold, effort, GAP, floors, ceiling)[0].ratio > 1:
                low_ms = threshold
                yield threshold
            else:
                high_ms = threshold

    def _is_proven(self, price: FloatArray, threshold_ms: float, bounds: list[float]) -> bool:
        """Whether these prices prove a threshold if an accelerator of each kind pays so much at most."""
        paid = sum(count * bound for count, bound in zip(self.counts, bounds, strict=True))
        return self._left_by_cpus(price, threshold_ms) > paid

    @staticmethod
    def _largest(is_proven: Callable[[float], bool], low_ms: float, high_ms: float) -> float:
        """Return about the largest threshold of an interval that is proven, or its lower end."""
        if is_proven(high_ms):
            return high_ms
        for _ in range(TABLE_STEPS):
            middle = 0.5 * (low_ms + high_ms)
            if is_proven(middle):
                low_ms = middle
            else:
                high_ms = middle
        return low_ms

    def prove(
        self, threshold_ms: float, start: FloatArray, proceed: Callable[[Certificate], bool]
    ) -> tuple[bool | None, Certificate]:
        """Try to prove that no split has max-load <= T; return the outcome and the best certificate.

        True: proven. False: the linear program has a solution, so no prices prove it. None: `proceed`, which is
        called often with the best certificate so far, said to stop, or progress ended.
        """
        best = self._ascend(threshold_ms, start, proceed)
        if best.ratio > 1:
            return True, best
        program = self._program(threshold_ms)
        n = self._num_blocks
        while proceed(best):
            solved = program.solve(PROGRAM_SECONDS)
            if solved is None:
                break
            value, duals = solved
            if value <= 1 + MARGIN:
                return False, best
            latest, rents = duals[:n], [-float(dual) for dual in duals[n : n + len(self.counts)]]
            progress = False
            for share, efforts in STEPS:
                scale = float(latest.sum() / best.price.sum())
                price = share * scale * best.price + (1 - share) * latest
                pricings = self.pricings(price, threshold_ms)
                for effort in efforts:
                    certificate, dearest = self.certify(price, threshold_ms, effort, pricings=pricings)
                    if certificate.ratio > best.ratio:
                        best, progress = certificate, True
                    if best.ratio > 1:
                        return True, best
                    entered = self.take(dearest, threshold_ms)
                    useful = [(g, row) for g, row in entered if float(latest[row].sum()) > rents[g] * (1 + 1e-9)]
                    for g, row in useful:
                        _enter(program, g, row)
                    if useful:
                        break
                if useful or not proceed(best):
                    progress |= bool(useful)
                    break
            if not progress:
                break
        return None, best

    def _ascend(self, threshold_ms: float, start: FloatArray, proceed: Callable[[Certificate], bool]) -> Certificate:
        """Raise the ratio by deflected subgradients; the contents met are remembered."""
        best, _ = self.certify(start, threshold_ms, EXACT)
        price, direction = start, np.zeros(self._num_blocks)
        step, futile, is_loose = 0.5, 0, False
        for _ in range(ASCENT_ROUNDS):
            if best.ratio > 1 or step < 0.01 or not proceed(best):
                break
            certificate, dearest = self.certify(price, threshold_ms, ASCENT_EFFORTS[is_loose])
            is_loose |= any(kind.bound > (1 + LOOSE) * float(kind.prices[0]) for kind in dearest)
            paid = self.paid(dearest)
            if not 0 < paid < math.inf:
                break
            futile = 0 if certificate.ratio > best.ratio + 1e-4 else futile + 1
            if certificate.ratio > best.ratio:
                best = certificate
            self.take(dearest, threshold_ms)
            # Scaled so that the accelerators pay 1.
            price = price / paid
            if futile >= (FAR_PATIENCE if best.ratio < FAR_RATIO else ASCENT_PATIENCE):
                step, futile = 0.7 * step, 0
                price = best.price
            gradient = 1.0 - self.cpus.dearest(price, threshold_ms)[1]
            for count, kind in zip(self.counts, dearest, strict=True):
                gradient -= count * kind.sets[0]
            direction = 0.7 * direction + gradient
            price = price + step * (ASCENT_TARGET - certificate.ratio) / (direction @ direction + 1e-9) * direction
        return best

    def _program(self, threshold_ms: float) -> GrowingProgram:
        """Return the linear program over the contents known."""
        n, kinds, cpus = self._num_blocks, len(self.counts), self.cpus
        room = cpus.num_cpus * threshold_ms
        # Of blocks that CPUs have nothing is left to accelerators.
        covered = np.where(cpus.has, 0.0, 1.0)
        free = 1.0 - float(cpus.cpu_ms[cpus.has].sum()) / room if room > 0 else 1.0
        program = GrowingProgram(
            np.concatenate([covered, np.zeros(kinds), [-math.inf]]),
            np.concatenate([covered, np.full(kinds, math.inf), [free]]),
        )
        program.add_column(1.0, np.arange(n, n + kinds, dtype=np.int32), np.array(self.counts, np.float64))
        for b in range(n):
            # What is missing or too much of a block, at a cost that limits its price.
            for sign in (1.0, -1.0):
                program.add_column(PRICE_LIMIT / self._equivalents, np.array([b], np.int32), np.array([sign]))
            if cpus.num_cpus and cpus.cpu_ms[b] <= threshold_ms and not (cpus.has[b] or cpus.lacks[b]):
                share = cpus.cpu_ms[b] / room if room > 0 else 0.0
                program.add_column(0.0, np.array([b, n + kinds], np.int32), np.array([1.0, share]), 1.0)
        for (g, _), (contents, load) in self.columns.items():
            if load <= threshold_ms:
                _enter(program, g, contents)
        return program

    def take(self, dearest: list[Dearest], threshold_ms: float) -> list[tuple[int, BoolArray]]:
        """Remember the contents within T; return those that are new, with their kinds."""
        new: list[tuple[int, BoolArray]] = []
        for g, kind in enumerate(dearest):
            most = len(new) + SETS_PER_ROUND
            for contents, load in zip(kind.sets, kind.loads, strict=True):
                if len(new) < most and load <= threshold_ms and self.add(g, contents, float(load)):
                    new.append((g, contents))
        return new


def _by_kind(contraction: Contraction, deployment: Deployment) -> list[tuple[tuple[int, ...], Contraction]]:
    """Return for each kind of accelerators which they are, and the contraction with their times and transfers."""
    if not deployment.classes:
        return [(tuple(range(deployment.num_accelerators)), contraction)]
    devices_of: dict[tuple[float, ...], list[int]] = {}
    first = 0
    for ms, one in zip(contraction.class_ms, deployment.classes, strict=True):
        if one.count:
            devices_of.setdefault((one.link_speed, *ms.tolist()), []).extend(range(first, first + one.count))
            first += one.count
    return [
        (
            tuple(devices),
            replace(
                contraction,
                accelerator_ms=np.array(ms),
                hyperedges=tuple(replace(h, weight_ms=h.weight_ms / link_speed) for h in contraction.hyperedges),
            ),
        )
        for (link_speed, *ms), devices in devices_of.items()
    ]


def _enter(program: GrowingProgram, kind: int, contents: BoolArray) -> None:
    """Add the column of contents: a row per block, then that of the number of accelerators of the kind."""
    rows = np.append(np.flatnonzero(contents), len(contents) + kind).astype(np.int32)
    program.add_column(0.0, rows, np.concatenate([np.ones(len(rows) - 1), [-1.0]]))
