"""What a second core does beside a DP that takes long: bounds and a better plan."""

import math

from solvers.chain.run import Watch, chain_search
from solvers.model.split import Family
from solvers.problem.contraction import Contraction
from solvers.problem.solving import Problem, Reporter, contracted, watched


class BesideDp:
    """Cheap bounds, a better plan, then dear bounds; what is found goes to the reporter.

    Bounds are those of all free splits: chains are such. `has_improved` and `has_bounded` say what came to its end.
    """

    def __init__(self, contraction: Contraction, problem: Problem, reporter: Reporter) -> None:
        """Do nothing yet."""
        self._contraction, self._problem, self._reporter = contraction, problem, reporter
        self.has_improved = self.has_bounded = False

    def work(self, watch: Watch) -> None:
        """Work while `watch` says so."""
        from solvers.free.bounds import FreeBounds

        problem, reporter = self._problem, self._reporter
        known_ms = reporter.lower_bound_ms or 0.0
        bounds = watched(lambda: FreeBounds(contracted(problem, Family.FREE), problem.deployment, known_ms), watch)
        if bounds is None:
            return

        def hand_over() -> bool:
            reporter.proved(bounds.lower_bound_ms)
            return watch()

        bounds.raise_by_cuts(reporter.value_ms or 0.0, hand_over)
        bounds.raise_by_work(reporter.value_ms or 0.0, hand_over)
        self._improve(hand_over)
        left = reporter.seconds_left
        end_s = math.inf if left is None else reporter.seconds + left / 2
        bounds.raise_by_prices(
            lambda: reporter.value_ms or 0.0, problem.gap, hand_over, lambda: end_s - reporter.seconds
        )
        self.has_bounded = hand_over()

    def _improve(self, watch: Watch) -> None:
        from solvers.chain.improvement import ChainImprovement, chain_by_block

        reporter = self._reporter
        search, _, split_of = chain_search(self._contraction, self._problem)
        start = None if reporter.split is None else chain_by_block(self._contraction, reporter.split)
        if start is None:
            return
        improvement = ChainImprovement(search, start)

        def take_over() -> bool:
            if improvement.value_ms < (reporter.value_ms or math.inf):
                reporter.found(split_of(improvement.device_of_block))
            return watch()

        improvement.run(take_over)
        self.has_improved = take_over()
