"""Imports of config.json: published figures, laws of modes and levels, options, and what is refused."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.hardware.catalogue import catalogue
from solvers.hardware.devices import CatalogueError
from solvers.hardware.roofline import origin_of, times_on
from solvers.importers.hugging_face.config import MODEL_TYPES, import_config
from solvers.importers.hugging_face.presets import Preset, preset, presets
from solvers.importers.workload import Devices, Level, Mode, NumberFormat, Tied, Workload
from solvers.model.errors import PlacementError, SourceError
from solvers.model.graph import TimesKind
from solvers.model.result import SolveStatus
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.importing import import_fields, usual_devices
from tests.support.small_models import SMALL

SILENT = ("bert", "roberta", "vit")
CLASSIFIERS = (
    "SequenceClassification", "TokenClassification", "QuestionAnswering", "EncoderModel", "AudioClassification",
)  # fmt: skip


def _generates(config: Mapping[str, Any]) -> bool:
    return config["model_type"] not in SILENT and not config["architectures"][0].endswith(CLASSIFIERS)


GENERATING = [name for name, config in SMALL.items() if _generates(config)]
DECODERS = [name for name in GENERATING if SMALL[name]["model_type"] not in ("t5", "whisper")]


BERT_CASED = {
    "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "vocab_size": 28996, "max_position_embeddings": 512, "type_vocab_size": 2,
}  # fmt: skip


def by_name(known: Preset) -> str:
    return known.name


def modes_of(name: str) -> tuple[Mode, ...]:
    return tuple(Mode) if name in GENERATING else (Mode.PREFILL, Mode.TRAINING)


# Published figures.


@pytest.mark.parametrize("known", presets(), ids=by_name)
def test_parameters_are_those_that_were_published(known: Preset) -> None:
    """Papers and cards print two to four digits, or round up to a name such as 11B."""
    counted = import_fields(known.config).totals.parameters
    assert counted == pytest.approx(known.published_parameters, rel=0.03)
    assert known.config_source.startswith("https://")
    assert known.published_source.startswith("https://")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.2-1b", 1_235_814_400),
        ("mistral-7b", 7_241_732_096),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("gemma-2-9b", 9_241_705_984),
        ("gpt2-xl", 1_557_611_200),
        ("gpt-neox-20b", 20_554_567_680),
        ("roberta-large", 355_412_057),
        ("t5-large", 737_668_096),
        ("vit-l-16", 304_326_632),
        ("whisper-large-v3", 1_543_490_560),
    ],
)
def test_parameters_are_exactly_those_of_the_released_weights(name: str, parameters: int) -> None:
    assert import_fields(preset(name).config).totals.parameters == parameters


@pytest.mark.parametrize(
    ("name", "active"),
    [("mixtral-8x7b", 12.9e9), ("qwen3-30b-a3b", 3.3e9), ("qwen1.5-moe-a2.7b", 2.7e9), ("deepseek-v3", 37e9)],
)
def test_parameters_that_a_token_meets_are_those_that_were_published(name: str, active: float) -> None:
    assert import_fields(preset(name).config).totals.active_parameters == pytest.approx(active, rel=0.02)


def test_modules_for_further_tokens_add_what_deepseek_published() -> None:
    """11.5 B of their own, 14 B in the released files, which have embedding and output again (README_WEIGHTS.md)."""
    config = preset("deepseek-v3").config
    without = import_fields(config).totals.parameters
    trained = import_fields(config, mode=Mode.TRAINING).totals.parameters
    assert trained - without == pytest.approx(11.5e9, rel=0.01)
    copied = import_fields(config, mode=Mode.TRAINING, tied=Tied.COPY).totals.parameters
    assert copied - without == pytest.approx(14e9, rel=0.05)
    assert copied - trained == 2 * config["vocab_size"] * config["hidden_size"]


# Laws.


@pytest.mark.parametrize("name", list(SMALL))
def test_layers_have_the_sums_of_the_operators(name: str) -> None:
    for mode in modes_of(name):
        layers = import_fields(SMALL[name], mode=mode, batch=3)
        operators = import_fields(SMALL[name], mode=mode, batch=3, level=Level.OPERATORS)
        assert layers.totals == operators.totals
        assert len(layers.graph.nodes) < len(operators.graph.nodes)
        for what in ("accelerator_ms", "cpu_ms", "memory_bytes", "flops", "parameter_bytes", "traffic_bytes"):
            by_layers = math.fsum(getattr(node, what) for node in layers.graph.nodes)
            assert by_layers == pytest.approx(math.fsum(getattr(node, what) for node in operators.graph.nodes)), what
        assert {node.layer for node in layers.graph.nodes} == {node.layer for node in operators.graph.nodes}
        assert layers.graph.bandwidth_bytes_per_ms == pytest.approx(usual_devices().link.bandwidth_bytes_per_ms)
        assert layers.graph.times is not None
        assert layers.graph.times.kind is TimesKind.SUMMED


@pytest.mark.parametrize("name", DECODERS)
def test_blocks_pass_one_tensor_on_and_one_gradient_back(name: str) -> None:
    config = SMALL[name] | {"num_nextn_predict_layers": 0}
    graph = import_fields(config, mode=Mode.TRAINING, tied=Tied.COPY, batch=2, sequence=8).graph
    width = config.get("hidden_size", config.get("n_embd"))
    for node in graph.nodes:
        assert not node.name.endswith("output 2")
        if (node.layer or "").startswith("block"):
            assert graph.output_bytes[node.id] == 2.0 * 2 * 8 * width
    assert {node.layer: node.colocation_class for node in graph.nodes if not node.is_backward} == {
        node.layer: node.colocation_class for node in graph.nodes if node.is_backward
    }


@pytest.mark.parametrize("name", list(SMALL))
def test_training_state_and_activations_are_those_of_the_rule(name: str) -> None:
    trained = import_fields(SMALL[name], mode=Mode.TRAINING, batch=3)
    totals = trained.totals
    assert totals.memory_bytes == pytest.approx(16 * totals.parameters + totals.kept_bytes)
    # Less than twice only for what works on the input of the network, which needs no gradient.
    assert 1.7 * totals.forward_flops < totals.backward_flops < 2.6 * totals.forward_flops
    twice, thrice = (import_fields(SMALL[name], mode=Mode.TRAINING, batch=batch).totals for batch in (6, 9))
    assert twice.forward_flops == pytest.approx(2 * totals.forward_flops)
    assert thrice.kept_bytes - twice.kept_bytes == pytest.approx(twice.kept_bytes - totals.kept_bytes)
    if SMALL[name]["model_type"] != "t5":  # whose biases of positions are the same for all sequences
        assert twice.kept_bytes == pytest.approx(2 * totals.kept_bytes)
    for node in trained.graph.nodes:
        assert not node.is_backward or node.memory_bytes == 0.0


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-8b", "gpt-neox-20b", "phi-3-mini", "deepseek-v3"])
@pytest.mark.parametrize("batch", [1, 16])
def test_a_decoded_token_reads_the_weights_and_the_cache(name: str, batch: int) -> None:
    context = 1500
    config = preset(name).config
    totals = import_fields(config, mode=Mode.DECODE, context=context, batch=batch).totals
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    if "kv_lora_rank" in config:
        of_token = config["kv_lora_rank"] + config["qk_rope_head_dim"]
    else:
        of_token = 2 * config.get("num_key_value_heads", heads) * config.get("head_dim", config["hidden_size"] // heads)
    cache = 2 * batch * layers * of_token
    assert totals.kept_bytes == cache * (context + 1)
    assert totals.memory_bytes == 2 * totals.parameters + totals.kept_bytes
    experts = config.get("n_routed_experts", 1)
    used = min(experts, batch * config.get("num_experts_per_tok", 1))
    moe_layers = layers - config.get("first_k_dense_replace", layers)
    idle = (experts - used) * 3 * config["hidden_size"] * config.get("moe_intermediate_size", 0) * moe_layers
    table = config["vocab_size"] * config["hidden_size"]
    weights = 2 * (totals.parameters - table - idle)
    assert totals.traffic_bytes == pytest.approx(weights + cache * context, rel=0.02)
    assert totals.traffic_bytes > weights + cache * context


def test_a_prompt_leaves_the_cache_that_a_token_finds() -> None:
    config = preset("llama-3.1-8b").config
    prompt = import_fields(config, sequence=1000, batch=4).totals
    token = import_fields(config, mode=Mode.DECODE, context=999, batch=4).totals
    assert prompt.kept_bytes == token.kept_bytes == 2 * 4 * 1000 * 32 * 2 * 1024


def test_a_sliding_window_limits_cache_and_flops() -> None:
    config = preset("gemma-3-27b").config
    token = import_fields(config, mode=Mode.DECODE, context=100_000).totals
    full = sum((i + 1) % 6 == 0 for i in range(62))
    assert token.kept_bytes == 2 * 2 * 16 * 128 * (full * 100_001 + (62 - full) * 1024)
    found = import_fields(config, sequence=4096)
    assert any("sliding window" in sentence for sentence in found.assumptions)
    wide = import_fields({**config, "sliding_window": None}, sequence=4096)
    assert wide.totals.forward_flops - found.totals.forward_flops == (62 - full) * 4 * 32 * 128 * 4096 * (4096 - 1024)


@pytest.mark.parametrize("name", ["t5", "whisper"])
def test_a_decoded_token_of_an_encoder_decoder_finds_the_encoder_in_its_cache(name: str) -> None:
    config = SMALL[name]
    kwargs = {"sequence": 50} if name == "t5" else {}
    found = import_fields(config, mode=Mode.DECODE, context=20, batch=3, **kwargs)
    inner = config["d_model"] if name == "whisper" else config["num_heads"] * config["d_kv"]
    encoded = 100 if name == "whisper" else 50
    assert found.totals.kept_bytes == 2 * 3 * 2 * 2 * inner * (21 + encoded)
    assert not any((node.layer or "").startswith("encoder") for node in found.graph.nodes)
    assert any("The encoder has run" in sentence for sentence in found.assumptions)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5", "whisper", "bert"])
def test_tied_matrices_count_once_and_share_a_device_or_are_copied(name: str) -> None:
    config = SMALL[name]
    vocabulary, width = config["vocab_size"], config.get("hidden_size", config.get("n_embd", config.get("d_model")))
    shared, copied = (import_fields(config, tied=tied) for tied in Tied)
    copies = 2 if name == "t5" else 1
    assert copied.totals.parameters - shared.totals.parameters == copies * vocabulary * width
    (ids,) = shared.graph.colocation_members.values()
    assert "output" in {shared.graph.node_by_id[v].name for v in ids}
    assert not copied.graph.colocation_members
    assert any("--tied copy" in sentence for sentence in shared.assumptions)
    assert any("copied" in sentence for sentence in copied.assumptions)


@pytest.mark.parametrize("number_format", list(NumberFormat))
def test_weights_take_the_bytes_of_their_format(number_format: NumberFormat) -> None:
    found = import_fields(preset("llama-3.1-8b").config, mode=Mode.DECODE, context=8, number_format=number_format)
    assert found.totals.weight_bytes == found.totals.parameters * number_format.weight_bytes
    assert found.graph.times is not None
    expected = {"int4": "bf16"}.get(number_format, str(number_format))
    assert found.graph.times.precision == expected


def test_a_format_without_arithmetic_is_computed_in_the_usual_one_and_that_is_said() -> None:
    known = catalogue()
    old = Devices(known.accelerator("A100-80"), known.link("nvlink3"), known.host("Xeon-8480"))
    asked = Workload(number_format=NumberFormat.FP8)
    found = import_config(preset("llama-3.2-1b").config, asked, old, "a test")
    assert any(
        "1 bytes each (fp8, without scales)" in text and "computed in bf16" in text for text in found.assumptions
    )
    older = Devices(known.accelerator("T4"), known.link("pcie3-x16"), known.host("Xeon-8480"))
    found = import_config(preset("llama-3.2-1b").config, Workload(), older, "a test")
    assert found.graph.times is not None
    assert found.graph.times.precision == "fp16"
    with pytest.raises(CatalogueError, match="no published peak in bf16"):
        import_config(preset("llama-3.2-1b").config, Workload(number_format=NumberFormat.BF16), older, "a test")


def test_operators_can_be_put_on_another_device_later() -> None:
    known = catalogue()
    first, second = (
        usual_devices(),
        Devices(known.accelerator("A100-80"), known.link("nvlink4"), known.host("Xeon-8480")),
    )
    workload = Workload(level=Level.OPERATORS)
    config = preset("llama-3.2-1b").config
    graph = import_config(config, workload, first, "").graph
    expected = import_config(config, workload, second, "").graph
    setup = second.costs(NumberFormat.BF16).accelerator
    later = times_on(graph, setup, origin_of(graph.times, known))
    for node in expected.nodes:
        assert later.ms[node.id] == pytest.approx(node.accelerator_ms, rel=1e-5)


def test_layers_keep_their_times_on_their_own_device_and_scale_to_others() -> None:
    known = catalogue()
    own, half = (usual_devices().costs(stored).accelerator for stored in (NumberFormat.BF16, NumberFormat.FP32))
    graph = import_fields(preset("llama-3.2-1b").config).graph
    same = times_on(graph, own, origin_of(graph.times, known))
    assert same.ms == {node.id: node.accelerator_ms for node in graph.nodes}
    slower = times_on(graph, half, origin_of(graph.times, known))
    assert all(slower.ms[node.id] >= node.accelerator_ms for node in graph.nodes)
    assert slower.kind is TimesKind.SCALED


@pytest.mark.parametrize("name", list(SMALL))
def test_a_smaller_network_of_the_same_kind_costs_less(name: str) -> None:
    config = SMALL[name]
    layers = next(k for k in ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers") if k in config)
    less, more = (import_fields({**config, layers: n, "mlp_only_layers": []}).totals for n in (2, 4))
    for what in ("parameters", "forward_flops", "traffic_bytes", "weight_bytes"):
        assert getattr(less, what) < getattr(more, what)


# What is said.


def test_what_the_config_leaves_open_is_said() -> None:
    config = {**SMALL["llama"], "auto_map": {"AutoModel": "evil.Model"}, "quantization_config": {"bits": 4}}
    del config["tie_word_embeddings"], config["architectures"]
    said = import_fields(config).assumptions
    assert "Not in the config, so as transformers has it: tie_word_embeddings false." in said
    assert "The config has no 'architectures'; the model is taken to be a LlamaForCausalLM." in said
    assert any("names code of its own, which is not run" in sentence for sentence in said)
    assert any("--precision says how they are" in sentence for sentence in said)
    assert "--sequence is taken to be 256 tokens." in said
    assert len(set(said)) == len(said)


def test_the_text_part_of_gemma_3_is_imported_and_its_images_are_left_out() -> None:
    text = {key: value for key, value in SMALL["gemma3"].items() if key != "architectures"}
    whole = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    found = import_fields({**whole, "vision_config": {"hidden_size": 8}})
    assert found.totals == import_fields(SMALL["gemma3"]).totals
    assert any("has a part for images, which is left out" in sentence for sentence in found.assumptions)


def test_null_is_the_default_of_a_flag() -> None:
    nulls = {**SMALL["llama"], "tie_word_embeddings": None, "attention_bias": None, "mlp_bias": None}
    found = import_fields(nulls)
    assert found.totals == import_fields(SMALL["llama"]).totals
    assert any("tie_word_embeddings false" in sentence for sentence in found.assumptions)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"architectures": ["BertForTokenClassification"], "num_labels": 9}, 107_726_601),
        ({"architectures": ["BertForQuestionAnswering"]}, 107_721_218),
    ],
)
def test_bert_with_another_head_has_the_parameters_of_transformers(config: dict[str, Any], parameters: int) -> None:
    assert import_fields({**BERT_CASED, **config}).totals.parameters == parameters


# What is refused.


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": "mamba"}, r"'model_type' is \"mamba\", which is not known; this imports llama, .*whisper\.$"),
        (
            {"model_type": "llava", "text_config": {"model_type": "llama"}},
            "which is not known; its 'text_config' is a llama, which a config.json of that object alone brings in",
        ),
        ({"model_type": None}, "'model_type' is missing"),
        ({"model_type": ["llama"]}, "'model_type' is a list"),
        ({"hidden_size": 10**9}, r"'hidden_size' is 1000000000; give a whole number from 1 to 1,048,576"),
        ({"hidden_size": "64"}, "'hidden_size' is \"64\"; give a whole number"),
        ({"hidden_size": 64.5}, r"'hidden_size' is 64\.5"),
        ({"hidden_size": True}, "'hidden_size' is true"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"num_hidden_layers": 10**6}, "'num_hidden_layers' is 1000000; give a whole number from 1 to 1,024"),
        ({"num_attention_heads": 0}, "'num_attention_heads' is 0"),
        ({"num_key_value_heads": 3}, "must be a multiple of the second"),
        ({"head_dim": None, "num_attention_heads": 6}, "must be a multiple of the second"),
        ({"tie_word_embeddings": "no"}, "'tie_word_embeddings' is \"no\"; give true or false"),
    ],
)
def test_a_config_that_cannot_be_is_refused_in_a_sentence(changes: Mapping[str, Any], told: str) -> None:
    with pytest.raises(SourceError, match=told):
        import_fields({**SMALL["llama"], **changes})


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("bert", {"mode": Mode.DECODE}, "generates no tokens"),
        ("llama for sequences", {"mode": Mode.DECODE}, "generates no tokens"),
        ("t5 encoder", {"mode": Mode.DECODE}, "generates no tokens"),
        ("vit", {"sequence": 64}, "--sequence says nothing here"),
        ("gpt2", {"sequence": 257}, "positions for 256; give at most that"),
        ("gpt2", {"mode": Mode.DECODE, "context": 256}, "positions for 255; give at most that"),
        ("roberta", {"sequence": 129}, "positions for 128"),
        ("llama", {"mode": Mode.DECODE, "sequence": 9}, "--sequence says nothing here"),
        ("llama", {"context": 9}, "--context is the cache"),
        ("llama", {"batch": 0}, "--batch is 0"),
        ("llama", {"sequence": 2**30}, "--sequence is 1073741824"),
        ("llama", {"sequence": 2**20, "batch": 2**15}, "tokens is not imported"),
        ("llama", {"mode": Mode.TRAINING, "number_format": NumberFormat.INT4}, "Training in int4"),
    ],
)
def test_what_a_model_cannot_do_is_refused_in_a_sentence(name: str, asked: Mapping[str, Any], told: str) -> None:
    with pytest.raises(SourceError, match=told):
        import_fields(SMALL[name], **asked)


def test_the_largest_config_is_imported_or_refused_in_a_sentence() -> None:
    huge = {
        **SMALL["mixtral"],
        "hidden_size": 2**20,
        "intermediate_size": 2**20,
        "num_attention_heads": 4096,
        "num_key_value_heads": 4096,
        "head_dim": 2**20,
        "num_local_experts": 4096,
        "vocab_size": 2**24,
        "max_position_embeddings": 2**24,
    }
    with pytest.raises(PlacementError, match="must be a number from 0 to"):
        import_fields(huge, sequence=2**24, batch=64)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.integers(-2, 300),
    st.floats(),
    st.text(max_size=6),
    st.lists(st.one_of(st.integers(-3, 400), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(st.sampled_from(list(SMALL)), st.integers(0, 10_000), st.lists(VALUES, min_size=1, max_size=3), st.data())
@examples(500)
def test_any_change_of_a_config_is_imported_or_refused_in_a_sentence(
    name: str, seed: int, values: list[Any], data: st.DataObject
) -> None:
    config: dict[str, Any] = dict(SMALL[name])
    rng = random.Random(seed)  # noqa: S311
    known = [*config, "layer_types", "mlp_only_layers", "sliding_window", "id2label", "n_inner", "text_config"]
    for value in values:
        field = rng.choice(known)
        if rng.random() < 0.2:
            config.pop(field, None)
        else:
            config[field] = value
    mode = data.draw(st.sampled_from(list(Mode)))
    refused_or_sound(json.dumps(config), mode)


@given(st.sampled_from(list(SMALL)), st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
@examples(300)
def test_any_damage_to_the_text_is_imported_or_refused_in_a_sentence(name: str, seed: int, damage: bytes) -> None:
    text = json.dumps(SMALL[name]).encode()
    at = random.Random(seed).randrange(len(text))  # noqa: S311
    refused_or_sound(text[:at] + damage + text[at + len(damage) :], Mode.PREFILL)


def refused_or_sound(text: str | bytes, mode: Mode) -> None:
    try:
        found = import_config(text, Workload(mode=mode), usual_devices(), "a test")
    except PlacementError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert sentence.endswith(".")
        assert len(sentence) < 600
    else:
        assert found.totals.parameters > 0
        assert found.graph.nodes


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"nul", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 6000 + b"}", b" " * (2**20 + 1)]
)
def test_what_is_no_config_is_refused_in_a_sentence(text: bytes) -> None:
    with pytest.raises(SourceError, match=r"^The config .*\.$"):
        import_config(text, Workload(), usual_devices(), "a test")


def test_every_known_type_has_a_small_model_and_a_list_in_the_refusal() -> None:
    assert {config["model_type"] for config in SMALL.values()} | {"gemma3"} == set(MODEL_TYPES)


# Presets are solved.


@pytest.mark.parametrize("known", presets(), ids=by_name)
@pytest.mark.parametrize("training", [False, True])
def test_every_preset_is_solved_by_layers_on_eight_devices(known: Preset, training: bool) -> None:
    asked = {"mode": Mode.TRAINING} if training else {}
    devices = replace(usual_devices(), num_accelerators=8)
    found = import_config(known.config, Workload(tied=Tied.COPY, **asked), devices, "a test")
    result = solve(found.graph, found.deployment, method="dp", time_limit_s=60)
    fits = found.fewest_accelerators <= found.deployment.num_accelerators
    assert result.status is SolveStatus.OPTIMAL or (result.status is SolveStatus.INFEASIBLE and not fits)
