"""The training rule: what forks change, and what tied weights and recomputed products do."""

from dataclasses import replace

import pytest

from sample_graphs.cost_model import COSTS
from solvers.importers.inference import Held, inference_graph
from solvers.importers.network import Network, NetworkBuilder
from solvers.importers.training import training_graph, twin_id, with_forks
from solvers.model.graph import Tensor

ELEMENTS = 1000


def residual_network() -> Network:
    """Two layers: an embedding, and a residual block whose norm and sum read it."""
    net = NetworkBuilder("residual", 1, layer="embedding")
    x = net.add("embed", (), flops=0, elements=ELEMENTS, parameters=50)
    net.layer = "block"
    y = net.add("norm", (x,), flops=0, elements=ELEMENTS, keeps_inputs=True)
    y = net.add("product", (y,), flops=8000, elements=ELEMENTS, parameters=100, is_dense=True, keeps_inputs=True)
    net.residual("sum", y, x)
    return net.network()


def test_a_fork_sends_one_gradient_back_and_costs_nothing_forwards() -> None:
    plain, forked = residual_network(), with_forks(residual_network())
    assert [op.name for op in forked.ops] == ["embed", "block fork of embed", "norm", "product", "sum"]
    one, two = training_graph(plain, COSTS), training_graph(forked, COSTS)
    back = [e for e in one.edges if e.target == twin_id(plain, 0) and e.source != 0]
    assert len(back) == 2
    back = [e for e in two.edges if e.target == twin_id(forked, 0)]
    assert [(e.source, e.size_bytes) for e in back] == [(twin_id(forked, 1), 2.0 * ELEMENTS)]
    fork = two.node_by_id[1]
    assert (fork.accelerator_ms, fork.traffic_bytes, fork.flops) == (0.0, 0.0, 0.0)
    # What is kept does not change, and the adding up of the two parts moves from the embedding to the block.
    assert [node.activation_bytes for node in two.nodes[:2]] == [2.0 * ELEMENTS, 0.0]
    for what in ("flops", "traffic_bytes", "activation_bytes", "memory_bytes"):
        added = sum(getattr(node, what) for node in two.nodes) - sum(getattr(node, what) for node in one.nodes)
        assert added == 0.0, what


def test_each_gradient_is_a_tensor_of_its_own() -> None:
    net = NetworkBuilder("two", 1, layer="a")
    x = net.add("x", (), flops=0, elements=4)
    net.layer = "b"
    y = net.add("y", (x,), flops=0, elements=4)
    z = net.add("z", (), flops=0, elements=6)
    net.layer = "c"
    product = net.add("product", (y, z), flops=0, elements=4)
    network = net.network()
    assert with_forks(network) == network
    graph, back = training_graph(network, COSTS), twin_id(network, product)
    ms = COSTS.transfer_ms(COSTS.element_bytes * 4.0), COSTS.transfer_ms(COSTS.element_bytes * 6.0)
    assert graph.tensors_of[back] == (
        Tensor(back, "gradient 1", ms[0], COSTS.element_bytes * 4.0, (twin_id(network, y),)),
        Tensor(back, "gradient 2", ms[1], COSTS.element_bytes * 6.0, (twin_id(network, z),)),
    )
    one = training_graph(network, COSTS, gradients_are_one=True)
    (both,) = one.tensors_of[back]
    assert (both.size_bytes, set(both.readers)) == (COSTS.element_bytes * 10.0, set(graph.readers[back]))
    assert both.transfer_ms == pytest.approx(sum(ms))
    assert [replace(node, tensor_ms=(), transfer_ms=0.0) for node in graph.nodes] == [
        replace(node, transfer_ms=0.0) for node in one.nodes
    ]


def test_a_gradient_that_is_passed_on_is_one_tensor() -> None:
    network = residual_network()
    graph = training_graph(network, COSTS)
    back = twin_id(network, 3)
    assert [(t.name, t.size_bytes) for t in graph.tensors_of[back]] == [("", COSTS.element_bytes * ELEMENTS)]


def test_recomputed_products_are_added_to_the_backward_pass() -> None:
    net = NetworkBuilder("attention", 1)
    x = net.add("x", (), flops=0, elements=4, parameters=1)
    y = net.add("attention", (x,), flops=100, elements=4, is_dense=True, recomputed_flops=50)
    graph = training_graph(net.network(), COSTS)
    assert graph.node_by_id[twin_id(net.network(), y)].flops == 250


@pytest.mark.parametrize("training", [False, True])
def test_tied_weights_count_once_and_share_a_device(training: bool) -> None:
    net = NetworkBuilder("tied", 1)
    x = net.add("embedding", (), flops=0, elements=4, parameters=40, weight_reads=4)
    y = net.add("norm", (x,), flops=0, elements=4)
    z = net.add("output", (y,), flops=80, elements=10, weight_reads=40, is_dense=True, tied_to=x)
    network = net.network()
    assert network.parameters == 40
    graph = training_graph(network, COSTS) if training else inference_graph(network, COSTS)
    twins = {twin_id(network, x), twin_id(network, z)} if training else set()
    assert {x, z} | twins in [set(ids) for ids in graph.colocation_members.values()]
    assert sum(node.parameter_bytes or 0 for node in graph.nodes) == 80
    assert sum(node.memory_bytes - (node.activation_bytes or 0) for node in graph.nodes) == 40 * (16 if training else 2)


def test_a_cache_is_held_and_read() -> None:
    net = NetworkBuilder("cache", 1)
    net.add("attention", (), flops=8, elements=4, cache=30, cache_reads=29)
    network = net.network()
    (node,) = inference_graph(network, replace(COSTS, element_bytes=1), Held.CACHE).nodes
    assert (node.memory_bytes, node.activation_bytes, node.traffic_bytes) == (30.0, 30.0, 33.0)
