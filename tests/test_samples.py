"""The sample graphs: what is on disk is what the generators write, and it is what the papers describe.

Published figures: see `sample_graphs/catalogue.py` and the README beside it. Teaching claims are checked by brute
force over all assignments.
"""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from sample_graphs import cost_model, generate
from sample_graphs.catalogue import GNMT, INCEPTION_V3, MODELS, SAMPLES, UNET, Model, Sample
from sample_graphs.cells import amoebanet_a, nasnet_a_large, nasnet_a_mobile
from sample_graphs.cost_model import ACCELERATOR, COSTS, CPU, LINK_BYTES_PER_MS
from sample_graphs.image_classifiers import densenet121, resnext50, vgg16
from solvers.hardware.roofline import Setup
from solvers.importers.network import Network
from solvers.importers.training import training_graph, twin_id
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, check_split
from solvers.samples import read_sample, sample_info, sample_names, sample_text, samples

FOLDER = Path(generate.__file__).parent
README = (FOLDER / "README.md").read_text(encoding="utf-8")
MODEL_SAMPLES = [s for s in SAMPLES if s.model is not None]
TRAINING = [s.name for s in SAMPLES if s.name.endswith("_training")]
STATE_PER_PARAMETER_BYTE = cost_model.STATE_BYTES_PER_PARAMETER / cost_model.BYTES_PER_ELEMENT


def by_name(sample: Sample) -> str:
    return sample.name


def by_title(model: Model) -> str:
    return model.title


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    generate.write_samples(folder)
    return folder


def test_files_on_disk_are_what_the_generators_write(regenerated: Path) -> None:
    assert sorted(p.name for p in FOLDER.glob("*.json")) == sorted(p.name for p in regenerated.iterdir())
    for path in regenerated.iterdir():
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), f"{path.name}: run `make samples`"


def test_files_are_small() -> None:
    assert sum(p.stat().st_size for p in FOLDER.glob("*.json")) < 4e6


@pytest.mark.parametrize("sample", SAMPLES, ids=by_name)
def test_reading_gives_back_what_was_built(sample: Sample) -> None:
    graph, deployment = sample.build()
    read_graph, read_deployment = read_sample(sample.name)
    assert (read_graph.digest, read_graph.name, read_deployment) == (graph.digest, graph.name, deployment)


def test_menu_lists_every_sample_once() -> None:
    assert sample_names() == tuple(s.name for s in SAMPLES)
    assert len({s.title for s in samples()}) == len(samples())
    for sample in samples():
        assert sample.title
        assert "\n" not in sample.description
        assert json.loads(sample_text(sample.name))["name"] == sample.title
    assert sample_info("teaching_chain").title == "Teaching: a chain"


@pytest.mark.parametrize("sample", SAMPLES, ids=by_name)
def test_what_a_menu_says_of_memory_holds_and_names_it(sample: Sample) -> None:
    """It stands there whatever devices are picked, so it must be true by itself."""
    graph, deployment = sample.build()
    total = sum(node.memory_bytes for node in graph.nodes)
    most = max(node.memory_bytes for node in graph.nodes)
    said = sample_info(sample.name).description
    claims = {
        "fits one accelerator": total <= 16e9,
        "overflow one accelerator": total > 16e9,
        "do not fit one accelerator": sum(node.parameter_bytes or 0 for node in graph.nodes) > 16e9,
        "the embedding alone fills half": most > 8e9,
    }
    for claim, holds in claims.items():
        if claim in said:
            assert holds
            assert deployment.memory_bytes == 16e9
            assert "of 16 GB" in said


@pytest.mark.parametrize("read", [read_sample, sample_text, sample_info])
def test_an_unknown_sample_is_an_error_that_lists_the_names(read: object) -> None:
    assert callable(read)
    with pytest.raises(GraphError, match=r"no sample '\.\./setup'.*teaching_chain.*mixtral"):
        read("../setup")


# Totals against published figures.


@pytest.mark.parametrize("model", MODELS, ids=by_title)
def test_totals_are_the_published_ones(model: Model) -> None:
    parameters, flops = model.published.compare(model.build(False))
    assert parameters == pytest.approx(model.published.parameters, rel=0.02)
    if model.published.flops is not None:
        assert flops == pytest.approx(model.published.flops, rel=0.02)


@pytest.mark.parametrize(
    ("title", "parameters"),
    [
        ("ResNet-50", 25_557_032),
        ("Inception-v3", 23_834_568),
        ("BERT-base", 109_482_240),
        ("GPT-2 XL", 1_557_611_200),
        ("Llama-3-8B", 8_030_261_248),
        ("Mixtral 8x7B", 46_702_792_704),
    ],
)
def test_parameters_are_exactly_those_of_the_released_weights(title: str, parameters: int) -> None:
    model = next(m for m in MODELS if m.title == title)
    assert model.published.compare(model.build(False))[0] == parameters


def test_unet_agrees_with_a_second_count_over_the_layers_of_its_figure() -> None:
    # (kernel, input channels, output channels, output size) of each convolution, read off figure 1 of the paper.
    down = [(1, 64, 570, 568), (64, 128, 282, 280), (128, 256, 138, 136), (256, 512, 66, 64), (512, 1024, 30, 28)]
    up = [(1024, 512, 54, 52), (512, 256, 102, 100), (256, 128, 198, 196), (128, 64, 390, 388)]
    convolutions = [(1, 64, 2, 388)]
    for channels_in, channels, first, second in down + up:
        convolutions += [(3, channels_in, channels, first), (3, channels, channels, second)]
    parameters = sum(k * k * i * o + o for k, i, o, _ in convolutions)
    flops = sum(2 * k * k * i * o * size**2 for k, i, o, size in convolutions)
    for channels_in, channels, first, _ in up:  # up-convolutions, whose output a 3 x 3 convolution then shrinks by 2
        parameters += 4 * channels_in * channels + channels
        flops += 2 * channels_in * channels * (first + 2) ** 2
    network = UNET.build(False)
    assert network.parameters == parameters
    assert network.flops == pytest.approx(flops, rel=0.005)


def test_gnmt_agrees_with_the_closed_form_of_its_hyper_parameters() -> None:
    h, vocabulary = 1024, 32000
    one_input, two_inputs = 4 * h * (2 * h + 1), 4 * h * (3 * h + 1)
    encoder = 2 * one_input + two_inputs + 6 * one_input
    decoder = one_input + 7 * two_inputs
    attention = 2 * h * h + h
    assert GNMT.build(False).parameters == encoder + decoder + attention + 2 * vocabulary * h + vocabulary * (h + 1)


@pytest.mark.parametrize("sample", MODEL_SAMPLES, ids=by_name)
def test_files_store_the_totals_of_their_network(sample: Sample) -> None:
    assert sample.model is not None
    network = sample.model.build(sample.name.endswith("_training"))
    graph, _ = read_sample(sample.name)
    forward = [node for node in graph.nodes if not node.is_backward]
    assert sum(node.parameter_bytes or 0.0 for node in forward) == 2 * network.parameters
    assert sum(node.flops or 0.0 for node in forward) == pytest.approx(network.flops)


# Shape of the graphs.


def test_the_residual_networks_have_their_blocks_and_the_wide_one_its_experts() -> None:
    resnet, _ = read_sample("resnet50_operator_inference")
    assert sum(n.name.endswith("conv") for n in resnet.nodes) == 53
    assert sum(n.name.endswith("add") for n in resnet.nodes) == 16
    inception, _ = read_sample("inception_v3_operator_inference")
    assert sum(n.name.endswith("conv") for n in inception.nodes) == 94
    mixtral, _ = read_sample("mixtral_8x7b_layer_inference")
    assert sum("expert" in n.name for n in mixtral.nodes) == 32 * 8
    gnmt, _ = read_sample("gnmt_layer_inference")
    attention = next(n.id for n in gnmt.nodes if n.name == "attention")
    assert [gnmt.node_by_id[v].name for v in gnmt.readers[attention]] == [f"decoder {i} concat" for i in range(2, 9)]
    assert sum(n.name.endswith("add") for n in gnmt.nodes) == 12
    unet, _ = read_sample("unet_operator_inference")
    skips = [(u, v) for v in unet.node_by_id for u in unet.inputs[v] if unet.node_by_id[v].name.endswith("crop")]
    assert [(unet.node_by_id[u].layer, unet.node_by_id[v].layer) for u, v in skips] == [
        (f"down {i}", f"up {i}") for i in (4, 3, 2, 1)
    ]


@pytest.mark.parametrize("sample", MODEL_SAMPLES, ids=by_name)
def test_forward_graph_is_connected_and_ends_once(sample: Sample) -> None:
    graph, _ = read_sample(sample.name)
    forward = {n.id for n in graph.nodes if not n.is_backward}
    sinks = [v for v in forward if not any(w in forward for w in graph.readers[v])]
    assert len(sinks) == 1
    reach = {sinks[0]}
    for v in reversed(graph.topological_order):
        if v in reach:
            reach.update(graph.inputs[v])
    assert reach == forward
    assert all(n.layer for n in graph.nodes)


# Sizes, times and devices.


@pytest.mark.parametrize("sample", SAMPLES, ids=by_name)
def test_every_transfer_takes_its_bytes_at_one_bandwidth(sample: Sample) -> None:
    graph, _ = read_sample(sample.name)
    if sample.name == "teaching_convex_beats_chain":
        assert all(e.size_bytes == 0 for e in graph.edges)
        return
    assert graph.bandwidth_bytes_per_ms == pytest.approx(LINK_BYTES_PER_MS, rel=1e-9)
    for edge in graph.edges:
        assert edge.size_bytes is not None
        assert edge.size_bytes > 0
        assert graph.node_by_id[edge.source].transfer_ms == pytest.approx(edge.size_bytes / LINK_BYTES_PER_MS)


@pytest.mark.parametrize("sample", MODEL_SAMPLES, ids=by_name)
def test_memory_is_parameter_state_and_activations(sample: Sample) -> None:
    graph, _ = read_sample(sample.name)
    per_parameter_byte = STATE_PER_PARAMETER_BYTE if graph.is_training else 1
    for node in graph.nodes:
        assert node.parameter_bytes is not None
        assert node.activation_bytes is not None
        assert node.memory_bytes == node.parameter_bytes * per_parameter_byte + node.activation_bytes
        if node.is_backward:
            assert node.memory_bytes == 0


@pytest.mark.parametrize("sample", MODEL_SAMPLES, ids=by_name)
def test_times_obey_the_roofline(sample: Sample) -> None:
    graph, _ = read_sample(sample.name)
    for node in graph.nodes:
        assert node.flops is not None
        assert node.traffic_bytes is not None
        for setup, time_ms in ((ACCELERATOR, node.accelerator_ms), (CPU, node.cpu_ms)):
            assert time_ms == pytest.approx(setup.roofline_ms(node.flops, node.traffic_bytes), rel=1e-5)
        assert node.cpu_ms >= node.accelerator_ms
        if node.accelerator_ms:
            # The ratio lies between that of the bandwidths and that of the peaks.
            assert 2.49 < node.cpu_ms / node.accelerator_ms < 31.8


@pytest.mark.parametrize("sample", SAMPLES, ids=by_name)
def test_devices_hold_the_graph(sample: Sample) -> None:
    graph, deployment = read_sample(sample.name)
    if deployment.memory_bytes is None:
        return
    # Filling the accelerators in topological order, one after the other, must suffice: a chain is feasible.
    used, free_bytes = 0, 0.0
    for v in graph.topological_order:
        size = graph.node_by_id[v].memory_bytes
        assert size <= deployment.memory_bytes
        if size > free_bytes:
            used, free_bytes = used + 1, deployment.memory_bytes
        free_bytes -= size
    assert used <= deployment.num_accelerators


@pytest.mark.parametrize(
    "name", ["llama3_8b_layer_inference", "gpt2_xl_layer_training", "mixtral_8x7b_layer_inference"]
)
def test_large_models_do_not_fit_one_accelerator(name: str) -> None:
    graph, deployment = read_sample(name)
    assert deployment.memory_bytes is not None
    assert sum(n.memory_bytes for n in graph.nodes) > deployment.memory_bytes


# Training.


@pytest.mark.parametrize("name", TRAINING)
def test_no_edge_leads_from_backward_to_forward_and_some_lead_forwards(name: str) -> None:
    graph, _ = read_sample(name)
    backward = {n.id for n in graph.nodes if n.is_backward}
    assert not any(e.source in backward and e.target not in backward for e in graph.edges)
    assert any(e.source not in backward and e.target in backward for e in graph.edges)


@pytest.mark.parametrize("name", TRAINING)
def test_every_forward_node_shares_its_class_with_one_backward_twin(name: str) -> None:
    graph, _ = read_sample(name)
    alone = [n.name for n in graph.nodes if n.colocation_class is None]
    # The attention mask has no parameters and nobody wants its gradient.
    assert alone == (["attention mask"] if name.startswith("bert") else [])
    for ids in graph.colocation_members.values():
        forward, backward = (graph.node_by_id[v] for v in ids)
        assert (forward.is_backward, backward.is_backward) == (False, True)
        assert backward.name == f"{forward.name} backward"
        assert backward.layer == forward.layer


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.name in TRAINING], ids=by_name)
def test_backward_edges_mirror_forward_edges(sample: Sample) -> None:
    assert sample.model is not None
    network = sample.model.build(True)
    graph = training_graph(network, COSTS)
    backward = {n.id for n in graph.nodes if n.is_backward}
    mirrored = {
        (twin_id(network, e.target), twin_id(network, e.source))
        for e in graph.edges
        if e.source not in backward and e.target not in backward
    }
    assert {(e.source, e.target) for e in graph.edges if e.source in backward} == {
        (u, v) for u, v in mirrored if v in backward
    }


@pytest.mark.parametrize("name", TRAINING)
def test_a_training_step_takes_about_three_forward_passes(name: str) -> None:
    graph, _ = read_sample(name)
    forward = sum(n.flops or 0.0 for n in graph.nodes if not n.is_backward)
    backward = sum(n.flops or 0.0 for n in graph.nodes if n.is_backward)
    assert backward == pytest.approx(2 * forward, rel=0.05)


def test_the_first_convolution_has_no_input_gradient_to_compute() -> None:
    graph, _ = read_sample("resnet50_operator_training")
    first = graph.nodes[0]
    twin = next(n for n in graph.nodes if n.name == f"{first.name} backward")
    second = next(n for n in graph.nodes if n.name == "1.1 b conv")
    assert (twin.flops, twin.transfer_ms) == (first.flops, 0.0)
    assert second.flops is not None
    assert next(n for n in graph.nodes if n.name == "1.1 b conv backward").flops == 2 * second.flops


# Teaching graphs.


def best_max_load(graph: DnnGraph, deployment: Deployment, family: Family) -> float:
    """Smallest max-load in ms over every assignment that is valid in the family, by brute force."""
    ids = [n.id for n in graph.nodes]
    best = float("inf")
    for devices in product(range(deployment.num_devices), repeat=len(ids)):
        split = Split.from_device_of(dict(zip(ids, devices, strict=True)), deployment)
        if not check_split(graph, deployment, split, family):
            best = min(best, split_costs(graph, deployment, split).max_load_ms)
    return best


@pytest.mark.parametrize(
    ("name", "chain", "convex", "free"),
    [
        ("teaching_chain", 8.0, 8.0, 7.5),
        ("teaching_convex_beats_chain", 5.0, 4.0, 4.0),
        ("teaching_tied_embedding", 24.0, 24.0, 12.2),
    ],
)
def test_teaching_graphs_teach_what_they_say(name: str, chain: float, convex: float, free: float) -> None:
    graph, deployment = read_sample(name)
    found = [best_max_load(graph, deployment, family) for family in (Family.CHAIN, Family.CONVEX, Family.FREE)]
    assert found == pytest.approx([chain, convex, free])


def test_tied_embedding_makes_a_free_split_about_twice_as_good_as_any_chain() -> None:
    graph, deployment = read_sample("teaching_tied_embedding")
    chain = best_max_load(graph, deployment, Family.CHAIN)
    assert chain / best_max_load(graph, deployment, Family.FREE) == pytest.approx(2.0, rel=0.05)


# README.


def test_readme_tables_are_what_the_generators_write() -> None:
    assert generate.readme_tables() in README, "run `make samples`"


def device(setup: Setup) -> str:
    """Write a device as the README's table does."""
    peak = setup.processor.peak_flops_per_ms(setup.precision)
    return f"{setup.processor.title}: {peak / 1e9:g} TFLOPS, {setup.processor.bandwidth_bytes_per_ms / 1e6:g} GB/s"


def test_readme_states_the_number_of_samples_and_the_constants() -> None:
    assert len(SAMPLES) == 17
    assert len(MODELS) == 8
    assert "Seventeen graphs to place: eight published networks" in README
    for text in (
        f"{device(ACCELERATOR)}, {ACCELERATOR.processor.memory_bytes / 1e9:g} GB",
        device(CPU),
        f"| Link | {LINK_BYTES_PER_MS / 1e6:g} GB/s |",
        f"cost = size / {LINK_BYTES_PER_MS / 1e6:g}e6",
        f"peak_flops · {ACCELERATOR.efficiency.compute:g}",
        f"memory_bandwidth · {ACCELERATOR.efficiency.memory:g}",
        f"`{STATE_PER_PARAMETER_BYTE:g} · parameterBytes + activationBytes`",
        f"{cost_model.STATE_BYTES_PER_PARAMETER} bytes per parameter",
    ):
        assert text in README


def test_inception_leaves_out_its_auxiliary_classifier() -> None:
    assert not any("aux" in op.name for op in INCEPTION_V3.build(False).ops)


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "tolerance"),
    [
        (vgg16, 138_357_544, 15.5e9, 1e-9),  # torchvision, Simonyan and Zisserman
        (densenet121, 7_978_856, 2.87e9, 1e-9),  # torchvision
        (resnext50, 25_028_904, 4.23e9, 1e-9),  # torchvision
        (nasnet_a_mobile, 5.3e6, 564e6, 0.005),  # Zoph et al., CVPR 2018, table 4
        (nasnet_a_large, 88.9e6, 23.8e9, 0.005),  # Zoph et al., CVPR 2018, table 3
    ],
)
def test_networks_of_benchmarks_are_as_published(
    build: Callable[..., Network], parameters: float, multiply_adds: float, tolerance: float
) -> None:
    network = build(1, training=False)
    assert network.parameters == pytest.approx(parameters, rel=tolerance)
    assert network.flops / 2 == pytest.approx(multiply_adds, rel=0.02)


@pytest.mark.parametrize("build", [vgg16, densenet121, resnext50, nasnet_a_mobile, amoebanet_a])
def test_networks_of_benchmarks_can_be_trained(build: Callable[..., Network]) -> None:
    network = build(2, training=True)
    graph = training_graph(network, COSTS, gradients_are_one=True)
    assert len(graph.nodes) == 2 * len(network.ops)
    assert graph.is_training
