"""Sweeps over how many accelerators of each class there are, and over devices with settings of their own."""

from dataclasses import replace

import pytest

from solvers.hardware.devices import Catalogue
from solvers.hardware.equipment import Equipment, equip
from solvers.hardware.roofline import Efficiency
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.errors import DeploymentError, PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.split import check_split
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep.axes import Axis, DeviceSource, Quantity, class_named, with_class
from solvers.sweep.run import PointTask, run_sweep, solve_point
from solvers.sweep.spec import SweepSpec
from tests.support.graphs import chain, random_dag
from tests.support.sweeps import answers, threads


def test_a_class_is_named_whatever_the_capitals_unless_they_tell_two_apart() -> None:
    deployment = Deployment.of_classes([DeviceClass(name, 1) for name in ("T4", "L4", "l4")])
    assert [class_named(deployment, name) for name in ("T4", "t4", "L4", "l4")] == ["T4", "T4", "L4", "l4"]
    assert [one.count for one in with_class(deployment, "t4", count=3).classes] == [3, 1, 1]
    like_two = Deployment.of_classes([DeviceClass(name, 1) for name in ("Big", "bIG")])
    for name, among in (("t5", deployment), ("big", like_two)):
        with pytest.raises(DeploymentError, match=f"named {name}: its device types are"):
            class_named(among, name)


def mixed(seed: int, share: float = 0.5) -> SweepSpec:
    """Two fast accelerators with little memory against slow ones with more, on a random graph."""
    graph = random_dag(seed, 8)
    total = sum(node.memory_bytes for node in graph.nodes)
    fast = DeviceClass("fast one", 1, speed=2.0, memory_bytes=share * total)
    slow = DeviceClass("slow", 1, speed=0.7, memory_bytes=0.8 * total, link_speed=0.5)
    axes = (Axis(Quantity.COUNT, (0, 1, 2), "fast one"), Axis(Quantity.COUNT, (0, 1, 2, 3), "slow"))
    return SweepSpec(graph, Deployment.of_classes((fast, slow), 1), axes)


@pytest.mark.parametrize("seed", range(5))
def test_every_mix_is_what_solve_answers_and_one_more_of_any_class_never_hurts(seed: int) -> None:
    spec = mixed(seed)
    found = answers(spec)
    for index, result in found.items():
        asked = spec.asked(index)
        assert [one.count for one in asked.deployment.classes] == list(index)
        alone = solve(asked.graph, asked.deployment)
        assert result.status is alone.status
        assert result.value_ms == (alone.value_ms and pytest.approx(alone.value_ms, rel=1e-6))
        if result.split is not None:
            assert not check_split(asked.graph, asked.deployment, result.split, result.family)
            value = objective_value(asked.graph, asked.deployment, result.split, Objective.THROUGHPUT)
            assert value == pytest.approx(result.value_ms)
        for more in ((index[0] + 1, index[1]), (index[0], index[1] + 1)):
            if more in found and result.value_ms is not None:
                better = found[more].value_ms
                assert better is not None
                assert better <= result.value_ms


def test_plans_of_neighbours_are_carried_over_to_the_devices_of_a_point() -> None:
    """Numbers of devices behind a class move when it grows: every start must be valid where it is handed in."""
    spec, tasks = mixed(2), list[PointTask]()

    def solve_one(task: PointTask) -> object:
        tasks.append(task)
        return solve_point(task)

    found = {a.index: a.result for a in run_sweep(spec, threads, at_once=1, solve_one=solve_one)}  # type: ignore[arg-type]
    index_of = {tuple(value for _, value in task.changes): task for task in tasks}
    num_starts = 0
    for values, task in index_of.items():
        asked = spec.asked(tuple(int(value) for value in values))
        for start in task.starts:
            num_starts += 1
            assert not check_split(asked.graph, asked.deployment, start, spec.family)
            value = objective_value(asked.graph, asked.deployment, start, Objective.THROUGHPUT)
            assert value in [pytest.approx(result.value_ms) for result in found.values()]
    assert num_starts >= 5


def test_a_class_that_nobody_has_and_too_many_devices_are_refused_at_once() -> None:
    spec = mixed(0)
    with pytest.raises(PlacementError, match="its device types are fast one, slow"):
        replace(spec, axes=(Axis(Quantity.COUNT, (1, 2), "T4"),))
    with pytest.raises(PlacementError, match="accelerators are identical"):
        SweepSpec(chain([1.0]), Deployment(2), (Axis(Quantity.COUNT, (1, 2), "T4"),))
    with pytest.raises(PlacementError, match="1200 accelerators"):
        replace(spec, axes=(Axis(Quantity.COUNT, (1, 600), "fast one"), Axis(Quantity.COUNT, (1, 600), "slow")))
    with pytest.raises(PlacementError, match="two different"):
        replace(spec, axes=(Axis(Quantity.COUNT, (1, 2), "slow"), Axis(Quantity.COUNT, (1, 3), "slow")))
    with pytest.raises(PlacementError, match="names a class"):
        Axis(Quantity.COUNT, (1, 2))
    with pytest.raises(PlacementError, match="No class has cpus of its own"):
        Axis(Quantity.CPUS, (1, 2), "slow")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quantity", [Quantity.MEMORY, Quantity.BANDWIDTH])
def test_memory_and_links_of_one_class_are_those_and_more_never_hurts(seed: int, quantity: Quantity) -> None:
    base = mixed(seed)
    graph = with_bytes(base.graph, 2e6)
    total = sum(node.memory_bytes for node in graph.nodes)
    values = (0.3 * total, 0.5 * total, total) if quantity is Quantity.MEMORY else (0.2e6, 2e6, 20e6)
    spec = replace(base, graph=graph, axes=(Axis(quantity, values, "fast one"), base.axes[1]))
    found = answers(spec)
    fast, slow = base.deployment.classes
    for (i, count), result in found.items():
        change = {"memory_bytes": values[i]} if quantity is Quantity.MEMORY else {"link_speed": values[i] / 2e6}
        alone = solve(graph, Deployment.of_classes((replace(fast, **change), replace(slow, count=count)), 1))
        assert result.status is alone.status
        assert result.value_ms == (alone.value_ms and pytest.approx(alone.value_ms, rel=1e-6))
        harder = found[i - 1, count].value_ms if i else None
        if harder is not None:
            assert result.value_ms is not None
            assert result.value_ms <= harder
    assert len({result.value_ms for result in found.values()}) > 3


def with_bytes(graph: DnnGraph, bytes_per_ms: float) -> DnnGraph:
    """Return a graph whose edges have the bytes that its transfers move at a bandwidth."""
    sizes = {node.id: node.transfer_ms * bytes_per_ms for node in graph.nodes}
    edges = tuple(replace(edge, size_bytes=sizes[edge.source]) for edge in graph.edges)
    return DnnGraph(graph.nodes, edges)


def test_links_of_a_class_need_bytes_and_do_not_mix_with_those_of_all() -> None:
    spec = mixed(0)
    links = Axis(Quantity.BANDWIDTH, (1e6, 2e6), "slow")
    with pytest.raises(PlacementError, match="no consistent bytes"):
        replace(spec, axes=(links,))
    with pytest.raises(PlacementError, match="links of all accelerators and those of one class"):
        replace(spec, graph=with_bytes(spec.graph, 2e6), axes=(links, Axis(Quantity.BANDWIDTH_FACTOR, (1, 2))))


def test_devices_of_a_sweep_are_put_on_as_its_source_says() -> None:
    """Efficiencies and an own catalogue reach the workers: points are what `equip` makes of the same."""
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    ours = DeviceSource().catalogue
    t4 = next(one for one in ours.accelerators if one.name == "T4")
    own = replace(ours, accelerators=(*ours.accelerators, replace(t4, name="T5", memory_bytes=32e9)))
    source = DeviceSource(Equipment(efficiency=Efficiency(0.25, 0.5)), own)
    spec = SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, ("T4", "T5", "1xT5+2xT4")),), source=source)
    assert spec.device_types == ("T4", "T5")
    found = answers(spec)
    usual = answers(replace(spec, axes=(Axis(Quantity.DEVICES, ("T4",)),), source=DeviceSource()))
    assert found[(0,)].value_ms == found[(1,)].value_ms
    assert found[(0,)].value_ms > 1.5 * usual[(0,)].value_ms  # type: ignore[operator]
    assert spec.deployment_at((1,)).memory_bytes == 32e9
    from solvers.hardware.device_list import groups, parse_devices

    asked = replace(source.equipment, groups=groups(parse_devices("T4"), own, graph.times))
    alone = equip(graph, deployment, asked, own)
    assert isinstance(own, Catalogue)
    assert found[(0,)].value_ms == pytest.approx(solve(alone.graph, alone.deployment).value_ms)


def test_the_devices_of_a_point_are_those_of_its_question() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    lists = Axis(Quantity.DEVICES, ("1xA100-80:link=nvlink3+2xT4", "2xT4+1xL4"))
    spec = SweepSpec(graph, deployment, (lists, Axis(Quantity.BANDWIDTH, (8e6, 16e6), "T4")))
    for index in spec.points():
        assert spec.deployment_at(index) == spec.asked(index).deployment
