"""Plans that a framework can express: the best of them is found, proven, and exported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.framework_price import FrameworkPrice, price_document, price_text
from solvers.exporters.frameworks import FORMATS, Framework, exported, expressible_graph, why_none_expressible
from solvers.exporters.layers import layer_stack
from solvers.exporters.plan import ExportError, planned
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, check_split
from solvers.schedule.records import ScheduleKind
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import chain
from tests.support.layer_stacks import best_of, plain_stack, random_stack, splits_of_units

PIPELINES = [framework for framework, form in FORMATS.items() if form.is_pipeline]


def units_of(graph: DnnGraph, framework: Framework) -> list[frozenset[int]]:
    """Return what a framework places whole, in the order of the pipeline, told apart from the library's own code."""
    by_layer: dict[str, set[int]] = {}
    for node in graph.nodes:
        by_layer.setdefault(str(node.layer), set()).add(node.id)
    units = [frozenset(ids) for ids in by_layer.values()]
    if framework in (Framework.VLLM, Framework.LLAMA_CPP):
        units[:2] = [units[0] | units[1]]
    if framework is Framework.VLLM:
        units[-2:] = [units[-2] | units[-1]]
    return units


@given(
    st.integers(0, 10_000),
    st.integers(2, 5),
    st.integers(1, 4),
    st.sampled_from(PIPELINES),
    st.sampled_from((9, 40, None)),
)
@examples(150)
def test_the_best_expressible_plan_is_found_and_exported(
    seed: int, num_blocks: int, num_accelerators: int, framework: Framework, memory: int | None
) -> None:
    form = FORMATS[framework]
    training = form.trains_only or (not form.serves_only and seed % 2 == 0)
    graph = random_stack(seed, num_blocks, training=training)
    deployment = Deployment(num_accelerators, memory_bytes=memory)
    restricted = expressible_graph(graph, framework)
    found = solve(restricted, deployment)
    best = best_of(graph, deployment, splits_of_units(units_of(graph, framework), deployment))
    assert (found.status is SolveStatus.INFEASIBLE) == (best is None)
    if best is None or found.split is None or found.value_ms is None:
        return
    assert found.status is SolveStatus.OPTIMAL
    assert found.value_ms == pytest.approx(best)
    # The restricted graph costs a split what the graph itself does.
    assert split_costs(graph, deployment, found.split).max_load_ms == pytest.approx(found.value_ms)
    assert check_split(graph, deployment, found.split, Family.CHAIN) == ()
    unrestricted = solve(graph, deployment)
    assert unrestricted.lower_bound_ms is not None
    assert found.value_ms >= unrestricted.lower_bound_ms * (1 - 1e-9)
    assert exported(planned(graph, deployment, found.split), framework).text


@given(st.integers(0, 10_000), st.integers(2, 4), st.sampled_from((Family.CONVEX, Family.FREE)))
@examples(15)
def test_a_device_map_takes_layers_in_any_order_and_on_cpus(seed: int, num_blocks: int, family: Family) -> None:
    graph = random_stack(seed, num_blocks)
    deployment = Deployment(2, 1, memory_bytes=12.0)
    found = solve(expressible_graph(graph, Framework.DEVICE_MAP), deployment, family=family)
    if found.split is not None:
        assert exported(planned(graph, deployment, found.split), Framework.DEVICE_MAP).text


@given(st.integers(0, 10_000), st.integers(4, 7), st.sampled_from((Framework.MEGATRON, Framework.TORCH_PIPELINING)))
@examples(40)
def test_looped_schedules_are_cut_between_whole_layers(seed: int, num_blocks: int, framework: Framework) -> None:
    graph = random_stack(seed, num_blocks, training=True)
    deployment = Deployment(2)
    restricted = expressible_graph(graph, framework)
    found = solve(restricted, deployment)
    assert found.split is not None
    if sum(map(bool, found.split.accelerators)) == 2:
        plan = planned(graph, deployment, found.split, ScheduleKind.INTERLEAVED, 4, 2, restricted)
        assert exported(plan, framework).text


def test_frameworks_that_serve_refuse_training_and_the_reverse() -> None:
    serving, training = random_stack(1, 3), random_stack(1, 3, training=True)
    for framework, form in FORMATS.items():
        assert bool(why_none_expressible(training, framework)) == form.serves_only
        assert bool(why_none_expressible(serving, framework)) == form.trains_only


def test_a_graph_without_layers_is_refused_in_a_sentence() -> None:
    for framework in Framework:
        with pytest.raises(ExportError, match=r"^Node 1 .*\.$"):
            expressible_graph(chain((1.0, 2.0)), framework)


def test_layers_are_told_apart() -> None:
    stack = layer_stack(plain_stack(3))
    assert (stack.front, stack.blocks, stack.back) == ({0}, ({1}, {2}, {3}), {4})


def test_layers_may_be_numbered_with_zeros_ahead() -> None:
    nodes = tuple(Node(v, 1.0, 1.0, layer=f"layer_{v + 1:02d}") for v in range(11))
    edges = tuple(Edge(v, v + 1) for v in range(10))
    stack = layer_stack(DnnGraph(nodes, edges))
    assert stack.names[1] == tuple(f"layer_{v:02d}" for v in range(1, 12))
    assert stack.blocks == tuple(frozenset({v}) for v in range(11))
    twins = (*nodes[:-1], Node(10, 1.0, 1.0, layer="layer_1"))
    with pytest.raises(ExportError, match="Layers layer_01 and layer_1 of this graph have one number"):
        layer_stack(DnnGraph(twins, edges))


def answer(value_ms: float | None, bound_ms: float | None, status: SolveStatus) -> SolveResult:
    return SolveResult(status, "dp", Objective.THROUGHPUT, Family.CHAIN, None, value_ms, bound_ms, 0.0)


@pytest.mark.parametrize(
    ("ours", "best", "shares", "text"),
    [
        ((103.0, 103.0, SolveStatus.OPTIMAL), (100.0, 100.0, SolveStatus.OPTIMAL), (0.03, 0.03), "costs 3 %: 103 ms"),
        ((100.0, 90.0, SolveStatus.FEASIBLE), (100.0, 100.0, SolveStatus.OPTIMAL), (0.0, 0.0), "costs nothing"),
        ((110.0, 105.0, SolveStatus.FEASIBLE), (100.0, 88.0, SolveStatus.FEASIBLE), (0.05, 0.25), "from 5 % to 25 %"),
        ((110.0, 99.0, SolveStatus.FEASIBLE), (100.0, 88.0, SolveStatus.FEASIBLE), (0.0, 0.25), "25 % at most"),
        ((110.0, 105.0, SolveStatus.FEASIBLE), (100.0, None, SolveStatus.FEASIBLE), (0.05, None), "5 % or more"),
        (
            (None, None, SolveStatus.INFEASIBLE),
            (100.0, 100.0, SolveStatus.OPTIMAL),
            (0.0, None),
            "No plan is expressible",
        ),
    ],
)
def test_the_price_is_said_as_far_as_it_is_proven(
    ours: tuple[float | None, float | None, SolveStatus],
    best: tuple[float | None, float | None, SolveStatus],
    shares: tuple[float, float | None],
    text: str,
) -> None:
    price = FrameworkPrice(Framework.MEGATRON, answer(*ours), answer(*best))
    assert price.least == pytest.approx(shares[0])
    assert price.most == (None if shares[1] is None else pytest.approx(shares[1]))
    assert text in price_text(price)
    assert price_document(price)["text"].endswith((".", "ms."))


def test_branches_with_running_numbers_are_no_row() -> None:
    """Otherwise a plan with branch 2 before branch 1 would be written as if it were the other way round."""
    names = ("input", "branch 1", "branch 2", "output")
    nodes = tuple(Node(v, 1.0, 1.0, layer=name) for v, name in enumerate(names))
    graph = DnnGraph(nodes, (Edge(0, 1), Edge(0, 2), Edge(1, 3), Edge(2, 3)))
    with pytest.raises(ExportError, match="branch 2 does not read branch 1"):
        layer_stack(graph)
