"""Run the chain solver for a question in a thread: its plans and bounds go to the reporter as they are found."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from solvers.chain.ending import Ending
from solvers.model.costs import Objective
from solvers.model.deployment import Communication
from solvers.model.result import LOADING
from solvers.model.split import Split
from solvers.problem.contraction import Contraction
from solvers.problem.solving import Problem, Reporter

POLL_SECONDS = 0.05
"""How often a running DP is looked at."""


FIRST_PLAN_PHASES = (LOADING, "lower bound", "linearised DP")
"""Phases of a chain search before it has a plan."""


GRACE_SECONDS = 1.0
"""Compiling cannot be interrupted; if it ends after the time limit, the first plan still has this long."""


START_SECONDS = 5.0
START_SHARE = 0.2
"""An integer program waits at most this long, and this share of its time limit, for the DP's plan to start from."""


def run_dp(
    contraction: Contraction, problem: Problem, reporter: Reporter, seconds: float | None, *, proves: bool
) -> Ending:
    """Run the DP for at most `seconds`; its plans go to the reporter, and its bounds if it `proves` the problem.

    Returns what ended it: NO_SPLIT where it proved that there is no chain split.
    """
    reporter.report(LOADING)
    search, plan_of, split_of = chain_search(contraction, problem)
    search.begin_with(reporter.value_ms, reporter.lower_bound_ms, problem.gap)
    if is_plain(problem) and reporter.split is not None:
        search.improve_on(reporter.split)
    run_watched(search, plan_of, split_of, problem, reporter, seconds, proves=proves)
    ending: Ending = search.ending
    return ending


def run_watched(
    search: Any,
    plan_of: Callable[[Any], Any],
    split_of: Callable[[Any], Split],
    problem: Problem,
    reporter: Reporter,
    seconds: float | None,
    *,
    proves: bool,
) -> None:
    """Run a search in a thread for at most `seconds`; what it finds, and if it `proves` its bounds, are reported."""
    known: object = None
    failures: list[BaseException] = []

    def run() -> None:
        try:
            search.run()
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)

    def take_over() -> bool:
        nonlocal known
        if proves and search.lower_bound_ms < math.inf:
            reporter.proved(search.lower_bound_ms)
        plan = plan_of(search)
        if plan is None or plan is known:
            return False
        known = plan
        return reporter.found(split_of(plan))

    thread = threading.Thread(target=run, name="chain search", daemon=True)
    deadline = None if seconds is None else time.monotonic() + seconds
    loaded = -math.inf
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            reporter.report(search.phase, take_over())
            if reporter.within(problem.gap):
                search.stop()
            # A first plan is worth more than what comes after it: until it is there, only the limit itself counts.
            is_first = (proves or reporter.split is None) and search.phase.startswith(FIRST_PLAN_PHASES)
            is_over = deadline is not None and time.monotonic() > deadline
            if search.phase == LOADING:
                loaded = time.monotonic()
            is_limit = reporter.seconds_left == 0 and time.monotonic() > loaded + GRACE_SECONDS
            if (is_over and not is_first) or is_limit:
                search.stop()
    finally:
        search.stop()
        thread.join()
    if failures:
        raise failures[0]
    if take_over():
        reporter.report(search.phase, new_split=True)


def chain_search(
    contraction: Contraction, problem: Problem
) -> tuple[Any, Callable[[Any], Any], Callable[[Any], Split]]:
    """Return the search for the plain model or for its variants, what reads its plan, and makes that a split."""
    deployment, pins = problem.deployment, problem.pins
    fixed = pins.blocks(contraction)
    if is_plain(problem):
        from solvers.chain.max_load import ChainSearch  # numba loads here, when it is needed

        search = ChainSearch(problem.graph, contraction, deployment, problem.table_bytes, fixed)

        def split_of(device_of_block: dict[int, int]) -> Split:
            split = Split.from_device_of(contraction.device_of(device_of_block), deployment)
            return pins.labelled(split, deployment, search.kinds) if pins else split

        return search, lambda search: search.device_of_block, split_of
    from solvers.chain.stage_search import VariantSearch

    general = VariantSearch(problem.graph, contraction, deployment, problem.objective, problem.table_bytes, fixed)
    if not pins:
        return general, lambda search: search.stages, general.split_of

    def labelled(stages: Any) -> Split:
        return pins.labelled(general.split_of(stages), deployment, general.kinds)

    return general, lambda search: search.stages, labelled


def is_plain(problem: Problem) -> bool:
    """Whether max-load is asked for in the plain model, on accelerators of any kinds, without any of its variants."""
    deployment = problem.deployment
    is_variant = deployment.communication is not Communication.SUM
    is_variant = is_variant or bool(deployment.replication or deployment.training_memory)
    return problem.objective is Objective.THROUGHPUT and not is_variant
