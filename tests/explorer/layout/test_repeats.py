"""Repeated blocks: found where they are, under other names and noisy times, and nowhere else."""

import random
from dataclasses import replace

import pytest

from explorer.layout.repeats import repeated_blocks, satellites
from solvers.formats.graph_json import read_graph
from solvers.model.graph import DnnGraph, Edge, Node
from tests.support.graphs import chain
from tests.support.root import ROOT

SAMPLES = ROOT / "sample_graphs"


def blocks_of(graph: DnnGraph) -> list[set[int]]:
    found: dict[str, set[int]] = {}
    for v, title in (repeated_blocks(graph) or {}).items():
        found.setdefault(title, set()).add(v)
    return list(found.values())


def repeating(num_blocks: int, kinds: int, seed: int, noise: float = 0.0) -> DnnGraph:
    """Return blocks of `kinds` nodes and a residual edge each between a head and a tail, ids shuffled."""
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    n = num_blocks * kinds + 2
    ids = rng.sample(range(10 * n), n)
    times = [1.0 + i * i for i in range(kinds)]
    nodes = [Node(ids[0], 900.0, 1.0, name="head"), Node(ids[-1], 700.0, 1.0, name="tail")]
    for i in range(num_blocks * kinds):
        time_ms = times[i % kinds] * rng.uniform(1.0, 1.0 + noise)
        nodes.append(Node(ids[i + 1], time_ms, 1.0, name=f"op{chr(97 + i % kinds)}{ids[i + 1]}"))
    edges = {(ids[i], ids[i + 1]) for i in range(n - 1)}
    edges |= {(ids[b * kinds], ids[(b + 1) * kinds]) for b in range(num_blocks)}
    return DnnGraph(tuple(rng.sample(nodes, n)), tuple(Edge(u, v) for u, v in sorted(edges)))


@pytest.mark.parametrize("seed", range(5))
def test_blocks_are_found_whatever_the_ids(seed):
    graph = repeating(num_blocks=4 + seed, kinds=7, seed=seed)
    blocks = blocks_of(graph)
    assert len(blocks) == 4 + seed
    assert all(len(block) in (7, 8) for block in blocks)


def test_noise_of_a_profile_does_not_hide_blocks_and_other_costs_do():
    assert len(blocks_of(repeating(6, 7, seed=1, noise=0.2))) == 6
    graph = repeating(6, 7, seed=1)
    order = {v: i for i, v in enumerate(graph.topological_order)}
    growing = tuple(replace(node, accelerator_ms=2.0 ** order[node.id]) for node in graph.nodes)
    assert repeated_blocks(DnnGraph(growing, graph.edges)) is None


def test_numbered_names_tell_blocks():
    nodes = tuple(Node(v, float(v), 1.0, name=f"model.layers.{v // 3}.{'abc'[v % 3]}.weight_4") for v in range(12))
    graph = DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(11)))
    assert repeated_blocks(graph) == {v: f"layers {v // 3}" for v in range(12)}


def test_number_that_all_names_share_is_no_block():
    nodes = tuple(Node(v, float(2**v), 1.0, name=f"gpu.0.{'abcdefgh'[v]}") for v in range(8))
    assert repeated_blocks(DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(7)))) is None


def test_graph_of_different_nodes_has_no_blocks():
    assert repeated_blocks(chain(tuple(2.0**i for i in range(20)))) is None
    assert repeated_blocks(chain((1.0,))) is None


@pytest.mark.parametrize(
    ("sample", "layer", "num_layers"),
    [
        ("bert_base_operator_inference", "encoder", 12),
        ("bert_base_operator_training", "encoder", 12),
        ("resnet50_operator_inference", "stage", 16),
        ("gpt2_xl_layer_inference", "block", 48),
        ("mixtral_8x7b_layer_inference", "block", 32),
    ],
)
def test_structure_tells_the_layers_that_the_samples_name(sample, layer, num_layers):
    graph, _ = read_graph(SAMPLES / f"{sample}.json")
    nameless = DnnGraph(tuple(replace(node, layer=None) for node in graph.nodes), graph.edges)
    blocks = blocks_of(nameless)
    assert len(blocks) == num_layers
    for block in blocks:
        layers = [graph.node_by_id[v].layer for v in block]
        most = max(set(layers), key=lambda name: layers.count(name))
        assert str(most).startswith(layer)
        # The last node of a residual block may count to the next one.
        assert layers.count(most) >= 0.75 * len(block)


def test_satellites_are_constants_and_unread_outputs_of_one_node():
    nodes = tuple(Node(v, 1.0, 1.0) for v in range(1, 7))
    edges = (Edge(1, 3), Edge(2, 3), Edge(3, 4), Edge(4, 5), Edge(3, 6))
    # 1 and 2 feed 3 alone; 6 is a side output of 3; 5 is what the network is for, the only reader of 4.
    assert satellites(DnnGraph(nodes, edges)) == {1: 3, 2: 3, 6: 3}
