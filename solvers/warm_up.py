"""Compile the solver kernels ahead of the first solve: `placement warm-up`, and what `solve` starts where nobody has.

As a program, `python -m solvers.warm_up`, it tells its steps on stderr; as a child process, to its owner.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from solvers.compilation import (
    compile_first,
    forget_changed,
    is_compiled,
    one_at_a_time,
    provide_cache,
    settle,
    write_record,
)
from solvers.kernel_files import kernel_files, kernels
from solvers.latency.bound import latency_bound
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.problem.contraction import contract
from solvers.processes.child import Child, Owner
from solvers.solve import solve

GRAPH = DnnGraph(tuple(Node(v, 1.0, 1.0, 1.0, 0.5) for v in range(3)), (Edge(0, 1), Edge(1, 2)))
DEPLOYMENT = Deployment(2, 1, 3.0)
SEVERAL_TYPES = Deployment.of_classes((DeviceClass("a", 1, 1.0, 3.0), DeviceClass("b", 1, 0.5, 3.0)), 1)

FREE_SPLITS = "free-splits"
"""The argument with which this program compiles the kernels of free splits alone."""


class Step(NamedTuple):
    """A part of the work: what it is about, and a small problem, or several, that use all of it.

    Those of free splits have kernels of their own, so that another process can compile them beside the others: of a
    kernel that two processes compile at a time, numba's cache may mix up the machine code.
    """

    name: str
    run: Callable[[], object]
    is_of_free_splits: bool = False


def warm_up() -> None:
    """Load what the DP needs, once all is compiled."""
    compile_first(None)
    solve(GRAPH, DEPLOYMENT, method="dp")


def compile_all(tell: Callable[[str], object] = lambda step: None) -> int:
    """Compile every kernel of every method, so that all are in numba's cache on disk; return how many there are.

    `tell` is given the name of each step before it begins. A process that finds another one at it waits for that.
    Where there are two cores, both are used.
    """
    provide_cache()
    tell("waiting for another process")
    with one_at_a_time():
        is_worth_another = not is_compiled() and (os.cpu_count() or 1) > 1
        forget_changed()
        settle()  # what is solved here is what is compiled
        steps = tuple(_steps())
        with _beside() if is_worth_another else contextlib.nullcontext(lambda: None) as await_other:
            for i, step in enumerate(steps, 1):
                tell(f"{i} of {len(steps)}: {step.name}")
                if step.is_of_free_splits:
                    await_other()
                step.run()  # what another process has compiled is only read
        write_record(kernel_files())
        return sum(1 for _ in kernels())


@contextlib.contextmanager
def _beside() -> Iterator[Callable[[], object]]:
    """Have another process compile what free splits need; yield what waits for it.

    What it leaves undone, for whatever reason, is compiled by whoever comes to that step.
    """
    try:
        other = Child("solvers.warm_up", FREE_SPLITS, leads_group=False)
    except OSError:  # no process can be started
        yield lambda: None
        return
    try:
        yield other.end
    finally:
        other.kill()
        other.end()


def _compile_free_splits() -> None:
    settle()
    for step in _steps():
        if step.is_of_free_splits:
            step.run()


def _steps() -> Iterator[Step]:
    """Yield what compiles all kernels."""
    overlapped = replace(DEPLOYMENT, communication=Communication.OVERLAPPED)

    def pipelines_of_variants() -> None:
        from solvers.chain.ideals import grown_table, new_table  # numba loads here

        solve(GRAPH, overlapped, method="dp")
        grown_table(new_table(num_blocks=3, num_states=2, capacity=1), capacity=2)  # as for many ideals

    yield Step("pipelines", lambda: solve(GRAPH, DEPLOYMENT, method="dp"))
    yield Step("bound of pipelines", _bound_of_pipelines)
    yield Step("pipelines on several device types", lambda: solve(GRAPH, SEVERAL_TYPES, method="dp"))
    yield Step("pipelines with overlapped transfers", pipelines_of_variants)
    yield Step("latency", _latency)
    yield Step("bound of latency", lambda: latency_bound(GRAPH, DEPLOYMENT))
    yield Step("local search", lambda: solve(GRAPH, DEPLOYMENT, method="local_search"))
    yield Step("non-contiguous splits", _cuts_of_blocks, is_of_free_splits=True)
    yield Step("prices of blocks", _prices_of_blocks, is_of_free_splits=True)
    yield Step("plans made of prices", _plans_of_prices, is_of_free_splits=True)
    yield Step("better plans", _better_plans, is_of_free_splits=True)


def _bound_of_pipelines() -> None:
    from solvers.chain.max_load import ChainSearch  # numba loads here

    list(ChainSearch(GRAPH, contract(GRAPH, Family.CHAIN, DEPLOYMENT), DEPLOYMENT).bounded_by_borders(0.0))


def _cuts_of_blocks() -> None:
    from solvers.free.bounds import FreeBounds  # numba loads here

    bounds = FreeBounds(contract(GRAPH, Family.FREE, DEPLOYMENT), DEPLOYMENT, 0.0)
    bounds.raise_by_cuts(2.0, lambda: True)
    bounds.raise_by_work(2.0, lambda: True)


def _prices_of_blocks() -> None:
    from solvers.free.column_generation import DeviceContents  # numba loads here
    from solvers.free.price_search import best_prices
    from solvers.free.pricing import EXACT

    contraction = contract(GRAPH, Family.FREE, DEPLOYMENT)
    work_ms = contraction.accelerator_ms
    contents = DeviceContents(contraction, DEPLOYMENT)
    best_prices(contents, float(work_ms.sum()), work_ms, lambda best: True)
    # There is room for one node and a half, so that no bound is reached, and every pass of pricing is made.
    contents.dearest(work_ms, 1.5 * float(work_ms.max()), EXACT, gap=0.0)


def _plans_of_prices() -> None:
    from solvers.free.plans.filling import filled_by_work  # numba loads here

    filled_by_work(contract(GRAPH, Family.FREE, DEPLOYMENT), DEPLOYMENT)


def _better_plans() -> None:
    from solvers.free.plans.annealing import Annealing  # numba loads here

    blocks = contract(GRAPH, Family.CONVEX, DEPLOYMENT)
    Annealing(blocks, DEPLOYMENT, dict.fromkeys(range(blocks.num_blocks), 0), convex_in=GRAPH).sweep()


def _latency() -> None:
    from solvers.latency.annealing import latency_search  # numba loads here
    from solvers.latency.greedy import greedy_latency_splits

    contraction = contract(GRAPH, Family.FREE, DEPLOYMENT, join_idle=False)
    next(latency_search(GRAPH, DEPLOYMENT, contraction, greedy_latency_splits(GRAPH, DEPLOYMENT)))


def main(arguments: list[str]) -> None:
    """Compile all, and tell the steps to whoever waits for them."""
    if arguments == [FREE_SPLITS]:
        Owner()  # it ends with whoever waits for it
        _compile_free_splits()
    elif arguments == ["owned"]:
        owner = Owner()
        if not is_compiled():
            compile_all(lambda step: owner.send(step.encode()))
    else:
        compile_all(lambda step: print(f"compiling, {step}", file=sys.stderr, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
