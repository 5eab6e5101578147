"""Plans of large networks on real devices are as the docs say, to the digit and to the reason."""

import re
from dataclasses import dataclass, replace
from functools import cache

import pytest

from solvers.analysis.what_if import changes, gain
from solvers.hardware.catalogue import catalogue
from solvers.hardware.device_list import groups, parse_devices
from solvers.hardware.devices import Precision
from solvers.hardware.equipment import Equipment, equip
from solvers.hardware.roofline import Setup
from solvers.model.costs import DeviceCosts, Objective, split_costs
from solvers.model.deployment import Deployment, InFlight, TrainingMemory
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, check_split
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import contract
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.root import ROOT

DOCS = (ROOT / "docs" / "explanation" / "plans-on-real-devices.md").read_text(encoding="utf-8")
EIGHT = "8xA100-80:link=nvlink3"
MIXED = "2xA100-80:link=nvlink3+4xT4:link=pcie3-x16"
TWO = "2xA100-80:link=nvlink3"
TITLES = {
    "llama3_8b_layer_inference": "Llama-3-8B, inference",
    "llama3_8b_layer_training": "Llama-3-8B, training",
    "gpt2_xl_layer_inference": "GPT-2 XL, inference",
    "gpt2_xl_layer_training": "GPT-2 XL, training",
}
LLAMA = "llama3_8b_layer_training"


@dataclass(frozen=True)
class Solved:
    """A plan of a sample on a cluster."""

    graph: DnnGraph
    deployment: Deployment
    result: SolveResult

    @property
    def value_ms(self) -> float:
        assert self.result.value_ms is not None
        return self.result.value_ms

    @property
    def even_share_ms(self) -> float:
        return work_bound(contract(self.graph, Family.CHAIN, self.deployment, join_idle=False), self.deployment)

    @property
    def devices(self) -> tuple[DeviceCosts, ...]:
        assert self.result.split is not None
        return split_costs(self.graph, self.deployment, self.result.split).devices

    def flops(self, device: int) -> float:
        assert self.result.split is not None
        return sum(self.graph.node_by_id[v].flops or 0.0 for v in self.result.split.devices[device])

    def first_node(self, device: int) -> int:
        assert self.result.split is not None
        return min(self.result.split.devices[device])


def transfer_ms(device: DeviceCosts) -> float:
    return device.receive_ms + device.send_ms


@cache
def solved(sample: str, cluster: str, in_flight: int = 0, limited: bool = True) -> Solved:
    graph, deployment = read_sample(sample)
    kinds = groups(parse_devices(cluster), catalogue(), graph.times)
    on = equip(graph, replace(deployment, num_cpus=0), Equipment(kinds), catalogue())
    deployment = on.deployment
    if in_flight:
        deployment = replace(deployment, training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, in_flight))
    if not limited:
        classes = tuple(replace(one, memory_bytes=None) for one in deployment.classes)
        deployment = replace(deployment, memory_bytes=None, classes=classes)
    result = solve(on.graph, deployment)
    assert result.status is SolveStatus.OPTIMAL
    assert result.split is not None
    assert check_split(on.graph, deployment, result.split, Family.CHAIN) == ()
    return Solved(on.graph, deployment, result)


@pytest.mark.parametrize("sample", TITLES)
def test_the_table_is_what_the_commands_give(sample: str) -> None:
    eight, mixed, two = (solved(sample, cluster) for cluster in (EIGHT, MIXED, TWO))
    cells = (eight.value_ms, eight.even_share_ms, mixed.value_ms, mixed.even_share_ms, two.value_ms)
    assert f"| {TITLES[sample]} | {' | '.join(f'{ms:.2f} ms' for ms in cells)} |" in DOCS
    for cluster in (EIGHT, MIXED):
        assert f"--devices {cluster}" in DOCS


@pytest.mark.parametrize("sample", TITLES)
def test_eight_alike_share_the_work_evenly_and_transfer_next_to_nothing(sample: str) -> None:
    plan = solved(sample, EIGHT)
    assert 1.05 < plan.value_ms / plan.even_share_ms < 1.115
    for device in plan.devices:
        assert device.load_ms > 0.6 * plan.value_ms
        assert transfer_ms(device) < 0.011 * device.load_ms
        assert device.memory_bytes < 25e9
    assert plan.devices[-1].load_ms == min(device.load_ms for device in plan.devices)


def test_what_is_said_of_nodes_and_tensors_of_llama() -> None:
    plan = solved("llama3_8b_layer_inference", EIGHT)
    nodes = {node.name: node for node in plan.graph.nodes}
    assert nodes["5 feed-forward"].accelerator_ms == pytest.approx(4.6, abs=0.05)
    between = nodes["4 feed-forward"]
    assert plan.graph.output_bytes[between.id] == 2**24
    assert 1000 * between.transfer_ms == pytest.approx(56, abs=0.5)
    held = solved(LLAMA, EIGHT, in_flight=16).devices
    assert max(device.memory_bytes for device in held) == pytest.approx(33e9, rel=0.01)
    assert held[0].memory_bytes == max(device.memory_bytes for device in held)
    assert max(d.memory_bytes for d in solved(LLAMA, EIGHT).devices) == pytest.approx(24e9, rel=0.02)


@pytest.mark.parametrize("sample", TITLES)
def test_a_mixed_cluster_divides_the_work_by_speed(sample: str) -> None:
    plan, two = solved(sample, MIXED), solved(sample, TWO)
    assert plan.value_ms / plan.even_share_ms < 1.06
    for a100 in (0, 1):
        for t4 in (2, 3, 4, 5):
            assert 4.9 < plan.flops(a100) / plan.flops(t4) < 6.45
    assert all(transfer_ms(device) < 0.01 * device.load_ms for device in plan.devices[:2])
    share = max(transfer_ms(device) / device.load_ms for device in plan.devices[2:])
    assert 0.03 < share < 0.1
    assert 1.345 < two.value_ms / plan.value_ms < 1.375
    assert round(100 * 4 * 65 / 312) == 83
    assert two.even_share_ms / plan.even_share_ms == pytest.approx(1.42, abs=0.01)


@pytest.mark.parametrize(("sample", "share"), [("llama3_8b_layer_inference", 0.99), ("gpt2_xl_layer_inference", 0.975)])
def test_matrix_products_limit_both_cards(sample: str, share: float) -> None:
    graph, _ = read_sample(sample)
    for name in ("A100-80", "T4"):
        device = catalogue().accelerator(name)
        setup = Setup(device, Precision.FP16)
        times = [
            (
                setup.roofline_ms(node.flops or 0, node.traffic_bytes or 0),
                setup.is_memory_bound(node.flops or 0, node.traffic_bytes or 0),
            )
            for node in graph.nodes
        ]
        assert sum(ms for ms, is_bound in times if not is_bound) > share * sum(ms for ms, _ in times)
        if name == "T4":
            assert setup.flops_per_ms / setup.bytes_per_ms == pytest.approx(135, abs=0.5)
    dense = [node for node in graph.nodes if (node.flops or 0) > 1e10]
    assert all(500 < (node.flops or 0) / (node.traffic_bytes or 1) < 1352 for node in dense)


def test_the_t4_with_the_embedding_is_full_and_has_the_least_to_do() -> None:
    plan = solved(LLAMA, MIXED)
    embedding = min(range(6), key=plan.first_node)
    device = plan.devices[embedding]
    assert plan.deployment.device_name(embedding).startswith("T4")
    assert 0.999 < device.memory_bytes / 16e9 <= 1
    assert device.load_ms == min(one.load_ms for one in plan.devices)
    assert plan.graph.node_by_id[plan.first_node(embedding)].memory_bytes == pytest.approx(8.4e9, rel=0.01)
    assert solved(LLAMA, MIXED, limited=False).value_ms == pytest.approx(plan.value_ms)


def test_memory_in_flight_puts_an_a100_first() -> None:
    plan, free = solved(LLAMA, MIXED, in_flight=16), solved(LLAMA, MIXED)
    order = sorted(range(6), key=plan.first_node)
    assert [plan.deployment.device_name(d).split()[0] for d in order[:2]] == ["A100-80", "T4"]
    assert all(plan.first_node(t4) > plan.first_node(order[0]) for t4 in (2, 3, 4, 5))
    assert plan.devices[order[0]].memory_bytes == pytest.approx(76e9, rel=0.01)
    assert plan.value_ms / free.value_ms - 1 == pytest.approx(0.019, abs=0.001)


def test_what_would_help_is_as_the_table_says() -> None:
    plan = solved(LLAMA, MIXED)
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+ ms \| [\d.]+ %) \|$", DOCS, re.MULTILINE))
    asked = {
        change.label: change
        for change in changes(plan.graph, plan.deployment, Objective.THROUGHPUT, Family.CHAIN, "auto")
        if change.key.split()[0] in ("accelerator", "speed", "links", "memory")
    }
    told = {
        label: row
        for title, row in rows.items()
        for label in ([name for name in asked if name.endswith("a quarter more")] if "either" in title else [title])
    }
    assert told.keys() == asked.keys()
    for label, change in asked.items():
        gained = gain(plan.result, solve(change.graph, change.deployment, family=change.family))
        assert gained.is_exact or gained.cannot_help
        assert gained.value_ms is not None
        assert gained.saved_share is not None
        saved = 100 * gained.saved_share
        assert told[label] == f"{gained.value_ms:.2f} ms | {f'{saved:.1f}' if saved else '0'} %", label
