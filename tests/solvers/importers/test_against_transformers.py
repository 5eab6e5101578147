"""Parameters and flops are those of `transformers` 5 and torch's flop counter, where these are installed.

IMPORT_TORCH_PYTHON names a Python that has both; nothing is downloaded.
"""

import pytest

from solvers.importers.hugging_face.presets import presets
from solvers.importers.workload import Level, Mode
from tests.support.importing import ask_transformers, import_fields
from tests.support.small_models import SMALL, has_tokens

pytestmark = [pytest.mark.slow, pytest.mark.torch]

BATCH, TOKENS = 2, 96


def test_parameters_of_published_models_are_exactly_those_of_transformers() -> None:
    answers = ask_transformers([{"config": dict(preset.config)} for preset in presets()])
    counted = {preset.name: import_fields(preset.config).totals.parameters for preset in presets()}
    assert counted == {preset.name: answer["parameters"] for preset, answer in zip(presets(), answers, strict=True)}


def test_flops_and_parameters_of_small_models_of_every_kind() -> None:
    asked: list[int | None] = [TOKENS if has_tokens(config) else None for config in SMALL.values()]
    answers = ask_transformers(
        [
            {"config": config, "flops": {"batch": BATCH, "sequence": tokens, "training": True}}
            for config, tokens in zip(SMALL.values(), asked, strict=True)
        ]
    )
    for (name, config), tokens, answer in zip(SMALL.items(), asked, answers, strict=True):
        totals = import_fields(config, batch=BATCH, sequence=tokens).totals
        # T5 1.1 has an output matrix of its own, as its config says; transformers 5 ties it to the embedding always.
        is_untied_t5 = config["model_type"] == "t5" and not config["tie_word_embeddings"]
        own_output = config["vocab_size"] * config["d_model"] if is_untied_t5 else 0
        assert totals.parameters - own_output == answer["parameters"], name
        assert totals.forward_flops == answer["forward"], name
        # Modules for further tokens are in no class of transformers, and products of scores are not done again there.
        config = config | ({"num_nextn_predict_layers": 0} if "num_nextn_predict_layers" in config else {})
        trained = import_fields(config, batch=BATCH, sequence=tokens, mode=Mode.TRAINING, level=Level.OPERATORS)
        by_name = {node.name: node.flops or 0.0 for node in trained.graph.nodes}
        attention = [key for key in by_name if key.endswith("attention")]
        again = sum(by_name[f"{key} backward"] - 2 * by_name[key] for key in attention)
        assert trained.totals.forward_flops == answer["forward"], name
        assert trained.totals.backward_flops - again == pytest.approx(answer["backward"], rel=0.01), name


def test_flops_of_a_decoded_token() -> None:
    """Of DeepSeek-V3 transformers expands all that is in the cache, where the import attends to it as it is."""
    models = {
        name: config
        for name, config in SMALL.items()
        if config["architectures"][0].endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))
        and config["model_type"] != "deepseek_v3"
    }
    answers = ask_transformers(
        [
            {"config": config, "flops": {"batch": BATCH, "sequence": TOKENS, "decode": True}}
            for config in models.values()
        ]
    )
    found = {}
    for name, config in models.items():
        encoded = {"sequence": TOKENS} if config["model_type"] == "t5" else {}
        totals = import_fields(config, mode=Mode.DECODE, batch=BATCH, context=TOKENS, **encoded).totals
        found[name] = totals.forward_flops
    assert found == {name: answer["decode"] for name, answer in zip(models, answers, strict=True)}


def test_flops_of_real_sizes() -> None:
    names = ("gpt2", "bert-base", "vit-l-16")
    chosen = [preset for preset in presets() if preset.name in names]
    tokens = {"gpt2": 512, "bert-base": 384, "vit-l-16": None}
    answers = ask_transformers(
        [{"config": dict(p.config), "flops": {"batch": 1, "sequence": tokens[p.name]}} for p in chosen]
    )
    for preset, answer in zip(chosen, answers, strict=True):
        assert import_fields(preset.config, sequence=tokens[preset.name]).totals.forward_flops == answer["forward"]
