"""Run the chain solver for a question in a thread: its plans and bounds go to the reporter as they are found."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.chain.ending import Ending
from solvers.model.costs import Objective
from solvers.model.deployment import Communication
from solvers.model.result import LOADING
from solvers.model.split import Split
from solvers.problem.background import Background
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


MEANWHILE_AFTER_S = 1.5
"""A search that takes longer is helped by what can be done beside it.

That is processor time, and as good as all of the time that has passed: where a search has to share its core with
others there is none to spare beside it.
"""
CORE_SHARE = 0.8

MANY_BLOCKS = 5_000
"""Of so many a search may look long for a first plan, variants of the model of 20,000 for more than half a minute, and
the best chain of one line that it comes to may be worse than one of about equal stages."""

OFFERED_GAIN = 1e-3
"""A plan or a bound found beside a search is offered to it where it is better by this share."""

Watch = Callable[[], bool]
"""Called often by work beside a search; returns whether to go on."""


def run_dp(
    contraction: Contraction,
    problem: Problem,
    reporter: Reporter,
    seconds: float | None,
    *,
    proves: bool,
    meanwhile: Callable[[Watch], None] | None = None,
    always_plans: bool = False,
) -> Ending:
    """Run the DP for at most `seconds`; its plans go to the reporter, and its bounds if it `proves` the problem.

    Where it comes to none, and where there are many blocks, one that takes no search is reported if it `always_plans`.
    `meanwhile` is called once it has a plan, takes long and has a core of its own; what it reports is offered to it.
    Returns what ended it: NO_SPLIT where it proved that there is no chain split.
    """
    reporter.report(LOADING)
    search, plan_of, split_of = chain_search(contraction, problem)
    is_large, is_chain = contraction.num_blocks >= MANY_BLOCKS, is_plain(problem)
    # A search of variants that does not prove anything is waited for: its first plan is better.
    if always_plans and is_large and (is_chain or proves):
        _keep_even_chain(contraction, problem, reporter)
    search.begin_with(reporter.value_ms, reporter.lower_bound_ms, problem.gap)
    if is_plain(problem) and reporter.split is not None:
        search.improve_on(reporter.split)
    run_watched(search, plan_of, split_of, problem, reporter, seconds, proves=proves, meanwhile=meanwhile)
    if is_plain(problem):
        reporter.num_kept = (reporter.num_kept or 0) + search.num_kept
    ending: Ending = search.ending
    if always_plans and ending not in (Ending.ANSWERED, Ending.NO_SPLIT):
        _keep_even_chain(contraction, problem, reporter)
    return ending


def _keep_even_chain(contraction: Contraction, problem: Problem, reporter: Reporter) -> None:
    """Report a chain of about equal stages where no plan is known; it takes no search, and may break a rule."""
    from solvers.chain.even_chain import depth_first_order, even_chain

    if reporter.split is not None or problem.pins:
        return
    for order in np.arange(contraction.num_blocks, dtype=np.int32), depth_first_order(contraction):
        device_of_block = even_chain(problem.graph, contraction, problem.deployment, order)
        if device_of_block is not None:
            split = Split.from_device_of(contraction.device_of(device_of_block), problem.deployment)
            reporter.found_without_search(split)


def run_watched(
    search: Any,
    plan_of: Callable[[Any], Any],
    split_of: Callable[[Any], Split],
    problem: Problem,
    reporter: Reporter,
    seconds: float | None,
    *,
    proves: bool,
    meanwhile: Callable[[Watch], None] | None = None,
) -> None:
    """Run a search in a thread for at most `seconds`; what it finds, and if it `proves` its bounds, are reported.

    `meanwhile` is called in this thread, once, when the search has had a core for a while and there is a plan.
    """
    known: object = None
    is_ended = False
    offered_value_ms, offered_ms = math.inf, search.lower_bound_ms

    def take_over() -> None:
        nonlocal known
        if proves and search.lower_bound_ms < math.inf:
            reporter.proved(search.lower_bound_ms)
        plan = plan_of(search)
        if plan is not None and plan is not known:
            known = plan
            reporter.found(split_of(plan))

    deadline = None if seconds is None else time.monotonic() + seconds
    loaded = looked = -math.inf
    searching = Background(search.run, "chain search")

    def poll() -> None:
        nonlocal loaded, looked, is_ended
        take_over()
        reporter.report(search.phase)
        looked = time.monotonic()
        is_first = (proves or reporter.split is None) and search.phase.startswith(FIRST_PLAN_PHASES)
        is_over = deadline is not None and looked > deadline
        if search.phase == LOADING:
            loaded = looked
        is_limit = reporter.seconds_left == 0 and looked > loaded + GRACE_SECONDS
        # A first plan is worth more than what comes after it: until it is there, only the limit itself counts.
        if reporter.within(problem.gap) or (is_over and not is_first) or is_limit:
            is_ended = True
            search.stop()

    def watch() -> bool:
        if time.monotonic() >= looked + POLL_SECONDS:
            poll()
            offer()
        return searching.is_running and not is_ended

    def offer() -> None:
        nonlocal offered_value_ms, offered_ms
        value, bound = reporter.value_ms, reporter.lower_bound_ms or 0.0
        if reporter.split is None or value is None or is_ended:
            return
        # What divides a block the search cannot take: offered again and again, it would begin anew each time.
        if value < min(search.value_ms, offered_value_ms) * (1 - OFFERED_GAIN) or bound > max(
            offered_ms, search.lower_bound_ms
        ) * (1 + OFFERED_GAIN):
            offered_value_ms, offered_ms = value, bound
            search.offer(value, reporter.split, bound)

    began, began_work = time.monotonic(), time.process_time()

    def has_core() -> bool:
        worked, passed = time.process_time() - began_work, time.monotonic() - began
        return worked > max(MEANWHILE_AFTER_S, CORE_SHARE * passed)

    try:
        while searching.is_running:
            searching.wait(POLL_SECONDS)
            poll()
            if meanwhile and not is_ended and reporter.split and has_core():
                meanwhile(watch)
                meanwhile = None
    finally:
        search.stop()
        searching.wait()
    searching.result()
    take_over()
    reporter.report(search.phase)


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
