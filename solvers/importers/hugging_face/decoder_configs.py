"""Read the configs of decoder-only transformers.

Defaults are those of the configuration classes of transformers 5.23, of the fields that a config may leave out.
"""

from typing import Any

from solvers.importers.hugging_face.decoder import Decoder, Latent, Mixture
from solvers.importers.hugging_face.fields import Fields
from solvers.importers.limits import MAX_EXPERTS, MAX_HEADS, MAX_LAYERS, MAX_TOKENS, MAX_VOCABULARY, MAX_WIDTH
from solvers.model.errors import SourceError

SLIDING, FULL = "sliding_attention", "full_attention"

DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False},
    "mistral": {"tie_word_embeddings": False, "num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
    "qwen3": {
        "tie_word_embeddings": False,
        "attention_bias": False,
        "head_dim": 128,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
    "gemma2": {
        "tie_word_embeddings": True,
        "attention_bias": False,
        "head_dim": 256,
        "sliding_window": 4096,
        "vocab_size": 256000,
    },
    "gemma3_text": {
        "tie_word_embeddings": True,
        "attention_bias": False,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    "gpt2": {"tie_word_embeddings": True},
    "gpt_neox": {"tie_word_embeddings": False, "attention_bias": True, "use_parallel_residual": True},
    "phi3": {"tie_word_embeddings": False},
    "mixtral": {
        "tie_word_embeddings": False,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "qwen2_moe": {
        "tie_word_embeddings": False,
        "qkv_bias": True,
        "decoder_sparse_step": 1,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
        "num_experts": 60,
        "num_experts_per_tok": 4,
    },
    "qwen3_moe": {
        "tie_word_embeddings": False,
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "use_sliding_window": False,
        "sliding_window": 4096,
        "num_experts": 128,
        "num_experts_per_tok": 8,
    },
    "deepseek_v3": {
        "tie_word_embeddings": False,
        "attention_bias": False,
        "first_k_dense_replace": 3,
        "n_shared_experts": 1,
        "num_nextn_predict_layers": 1,
    },
}


def decoder_of(kind: str, fields: Fields, name: str, *, has_head: bool) -> Decoder:
    """Return the decoder that a config of this `model_type` describes."""
    if kind == "gpt2":
        return _gpt2(fields, name, has_head=has_head)
    width = fields.count("hidden_size", most=MAX_WIDTH)
    num_layers = fields.count("num_hidden_layers", most=MAX_LAYERS)
    heads = fields.count("num_attention_heads", most=MAX_HEADS)
    latent = _latent(fields) if kind == "deepseek_v3" else None
    key_value_heads = heads
    if kind not in ("gpt_neox", "deepseek_v3"):
        key_value_heads = fields.optional_count("num_key_value_heads", most=MAX_HEADS) or heads
    if heads % key_value_heads:
        raise SourceError(
            f"config.json: 'num_attention_heads' is {heads} and 'num_key_value_heads' {key_value_heads}; the first "
            "must be a multiple of the second."
        )
    own_width = None
    if kind not in ("gpt_neox", "deepseek_v3"):
        own_width = fields.optional_count("head_dim", most=MAX_WIDTH)
    is_qwen2, is_gemma = kind in ("qwen2", "qwen2_moe"), kind in ("gemma2", "gemma3_text")
    bias_field = {"llama": "attention_bias", "qwen3": "attention_bias", "qwen3_moe": "attention_bias"}.get(kind)
    if is_gemma or kind in ("gpt_neox", "deepseek_v3"):
        bias_field = "attention_bias"
    bias = fields.flag(bias_field) if bias_field else False
    qkv_bias = fields.flag("qkv_bias") if kind == "qwen2_moe" else kind == "qwen2" or bias
    return Decoder(
        name=name,
        width=width,
        num_layers=num_layers,
        vocabulary=fields.count("vocab_size", most=MAX_VOCABULARY),
        heads=heads,
        key_value_heads=key_value_heads,
        head_width=own_width or (0 if latent else _share(width, heads, "hidden_size", "num_attention_heads")),
        feed_forward=fields.count("intermediate_size", most=MAX_WIDTH),
        windows=_windows(kind, fields, num_layers),
        mixtures=_mixtures(kind, fields, num_layers),
        layer_norm=kind == "gpt_neox",
        gated=kind != "gpt_neox",
        fused_qkv=kind in ("gpt_neox", "phi3"),
        fused_gate=kind == "phi3",
        qkv_bias=qkv_bias,
        output_bias=bias and not is_qwen2,
        feed_forward_bias=kind == "gpt_neox" or (kind == "llama" and fields.flag("mlp_bias")),
        query_norm=kind in ("qwen3", "qwen3_moe", "gemma3_text"),
        post_norms=is_gemma,
        parallel=kind == "gpt_neox" and fields.flag("use_parallel_residual"),
        latent=latent,
        has_head=has_head,
        tied=fields.flag("tie_word_embeddings"),
        mtp=fields.optional_count("num_nextn_predict_layers", most=16, least=0) or 0 if latent else 0,
    )


def _gpt2(fields: Fields, name: str, *, has_head: bool) -> Decoder:
    width = fields.count("n_embd", "hidden_size", most=MAX_WIDTH)
    num_layers = fields.count("n_layer", "num_hidden_layers", most=MAX_LAYERS)
    heads = fields.count("n_head", "num_attention_heads", most=MAX_HEADS)
    return Decoder(
        name=name,
        width=width,
        num_layers=num_layers,
        vocabulary=fields.count("vocab_size", most=MAX_VOCABULARY),
        heads=heads,
        key_value_heads=heads,
        head_width=_share(width, heads, "n_embd", "n_head"),
        feed_forward=fields.optional_count("n_inner", most=MAX_WIDTH) or 4 * width,
        windows=(None,) * num_layers,
        mixtures=(None,) * num_layers,
        positions=fields.count("n_positions", "max_position_embeddings", most=MAX_TOKENS),
        layer_norm=True,
        gated=False,
        fused_qkv=True,
        qkv_bias=True,
        output_bias=True,
        feed_forward_bias=True,
        has_head=has_head,
        tied=fields.flag("tie_word_embeddings"),
    )


def _share(width: int, heads: int, field: str, heads_field: str) -> int:
    if width % heads:
        raise SourceError(
            f"config.json: '{field}' is {width} and '{heads_field}' {heads}; the first must be a multiple of the "
            "second."
        )
    return width // heads


def _latent(fields: Fields) -> Latent:
    return Latent(
        rank=fields.count("kv_lora_rank", most=MAX_WIDTH),
        query_rank=fields.optional_count("q_lora_rank", most=MAX_WIDTH),
        plain=fields.count("qk_nope_head_dim", most=MAX_WIDTH),
        rotary=fields.count("qk_rope_head_dim", most=MAX_WIDTH),
        value=fields.count("v_head_dim", most=MAX_WIDTH),
    )


def _windows(kind: str, fields: Fields, num_layers: int) -> tuple[int | None, ...]:
    """Return how far each layer looks back."""
    every = (None,) * num_layers
    if kind in ("mistral", "mixtral", "phi3"):
        return (fields.optional_count("sliding_window", most=MAX_TOKENS),) * num_layers
    if kind.startswith("qwen"):
        if not fields.flag("use_sliding_window"):
            return every
        window = fields.optional_count("sliding_window", most=MAX_TOKENS)
        if kind == "qwen3_moe":
            return (window,) * num_layers
        first = fields.count("max_window_layers", most=MAX_LAYERS, least=0)
        usual = [i >= first if kind != "qwen2_moe" else i % 2 == 0 and i < first for i in range(num_layers)]
    elif kind in ("gemma2", "gemma3_text"):
        window = fields.optional_count("sliding_window", most=MAX_TOKENS)
        period = 2 if kind == "gemma2" else fields.count("sliding_window_pattern", "_sliding_window_pattern", most=1024)
        usual = [(i + 1) % period != 0 for i in range(num_layers)]
    else:
        return every
    types = fields.texts("layer_types", (SLIDING, FULL), num_layers)
    slides = usual if types is None else [text == SLIDING for text in types]
    return tuple(window if slide else None for slide in slides)


def _mixtures(kind: str, fields: Fields, num_layers: int) -> tuple[Mixture | None, ...]:
    """Return the experts of each layer; None where it has an ordinary feed-forward part."""
    names = {
        "mixtral": ("num_local_experts", "num_experts"),
        "qwen2_moe": ("num_experts", "num_local_experts"),
        "qwen3_moe": ("num_experts", "num_local_experts"),
        "deepseek_v3": ("n_routed_experts", "num_local_experts"),
    }.get(kind)
    if names is None:
        return (None,) * num_layers
    experts = fields.count(*names, most=MAX_EXPERTS)
    per_token = fields.count("num_experts_per_tok", most=MAX_EXPERTS)
    if per_token > experts:
        raise SourceError(
            f"config.json: 'num_experts_per_tok' is {per_token}, more than the {experts} experts of '{names[0]}'."
        )
    width = fields.count("intermediate_size" if kind == "mixtral" else "moe_intermediate_size", most=MAX_WIDTH)
    shared, has_gate = 0, False
    if kind == "qwen2_moe":
        shared, has_gate = fields.count("shared_expert_intermediate_size", most=MAX_WIDTH), True
    elif kind == "deepseek_v3":
        shared = width * (fields.optional_count("n_shared_experts", most=64, least=0) or 0)
    mixture = Mixture(experts, per_token, width, shared, has_gate)
    if kind == "mixtral":
        return (mixture,) * num_layers
    if kind == "deepseek_v3":
        first = fields.count("first_k_dense_replace", most=MAX_LAYERS, least=0)
        return tuple(None if i < first else mixture for i in range(num_layers))
    dense = fields.counts("mlp_only_layers", MAX_LAYERS)
    step = fields.count("decoder_sparse_step", most=MAX_LAYERS)
    return tuple(None if i in dense or (i + 1) % step else mixture for i in range(num_layers))
