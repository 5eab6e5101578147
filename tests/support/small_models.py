"""Configs of small models, one or more of every `model_type` that is imported, with what differs between them."""

from collections.abc import Mapping
from typing import Any

DECODER = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
EXPERTS = {"moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2}


def _decoder(kind: str, architecture: str, **fields: Any) -> dict[str, Any]:
    return {"model_type": kind, "architectures": [architecture], **DECODER, **fields}


WORDS = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 160,
    "vocab_size": 300,
    "max_position_embeddings": 130,
    "type_vocab_size": 2,
    "tie_word_embeddings": True,
}
IMAGES = {
    "model_type": "vit", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 160,
    "image_size": 64, "patch_size": 16, "num_channels": 3, "qkv_bias": True,
}  # fmt: skip
T5 = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 64, "d_kv": 24, "d_ff": 160,
    "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4, "vocab_size": 300, "tie_word_embeddings": True,
    "feed_forward_proj": "relu", "relative_attention_num_buckets": 32,
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "d_model": 64, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 160, "decoder_ffn_dim": 120, "num_mel_bins": 20,
    "max_source_positions": 100, "max_target_positions": 130, "vocab_size": 300, "tie_word_embeddings": True,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
LATENT = {
    "moe_intermediate_size": 48, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 2, "n_group": 2,
    "topk_group": 1, "kv_lora_rank": 24, "q_lora_rank": 40, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
    "v_head_dim": 12, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "attention_bias": False,
    "num_key_value_heads": 4,
}  # fmt: skip

SMALL: dict[str, dict[str, Any]] = {
    "llama": _decoder("llama", "LlamaForCausalLM", head_dim=16, attention_bias=False, mlp_bias=False),
    "llama with biases": _decoder("llama", "LlamaForCausalLM", head_dim=24, attention_bias=True, mlp_bias=True),
    "llama without head": _decoder("llama", "LlamaModel", head_dim=16, attention_bias=False, mlp_bias=False),
    "llama for sequences": _decoder(
        "llama", "LlamaForSequenceClassification", head_dim=16, num_labels=5, pad_token_id=0
    ),
    "llama for tokens": _decoder("llama", "LlamaForTokenClassification", head_dim=16, num_labels=5),
    "llama for answers": _decoder("llama", "LlamaForQuestionAnswering", head_dim=16),
    "mistral": _decoder("mistral", "MistralForCausalLM", head_dim=24, sliding_window=None),
    "qwen2": _decoder("qwen2", "Qwen2ForCausalLM", use_sliding_window=False),
    "qwen2 of another head width": _decoder("qwen2", "Qwen2ForCausalLM", use_sliding_window=False, head_dim=24),
    "qwen3": _decoder("qwen3", "Qwen3ForCausalLM", head_dim=24, attention_bias=False, use_sliding_window=False),
    "gemma2": _decoder(
        "gemma2", "Gemma2ForCausalLM", head_dim=24, sliding_window=128, attention_bias=False, tie_word_embeddings=True
    ),
    "gemma3": _decoder(
        "gemma3_text", "Gemma3ForCausalLM", head_dim=24, sliding_window=128, attention_bias=False,
        sliding_window_pattern=2, tie_word_embeddings=True,
    ),
    "gemma3 for sequences": _decoder(
        "gemma3_text", "Gemma3TextForSequenceClassification", head_dim=24, sliding_window=128, attention_bias=False,
        sliding_window_pattern=2, tie_word_embeddings=True, num_labels=5, pad_token_id=0,
    ),
    "gpt2": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 3, "n_head": 4,
        "n_positions": 256, "vocab_size": 300, "tie_word_embeddings": True,
    },
    "gpt2 of another inner width": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 2, "n_head": 4,
        "n_positions": 256, "vocab_size": 300, "n_inner": 100, "tie_word_embeddings": False,
    },
    "gpt_neox": _decoder("gpt_neox", "GPTNeoXForCausalLM", use_parallel_residual=True, attention_bias=True),
    "gpt_neox in sequence": _decoder(
        "gpt_neox", "GPTNeoXForCausalLM", use_parallel_residual=False, attention_bias=False
    ),
    "phi3": _decoder("phi3", "Phi3ForCausalLM", sliding_window=None, pad_token_id=0),
    "phi3 of another head width": _decoder("phi3", "Phi3ForCausalLM", sliding_window=None, pad_token_id=0, head_dim=24),
    "mixtral by the name of others for experts": _decoder(
        "mixtral", "MixtralForCausalLM", num_experts=5, num_experts_per_tok=2, sliding_window=None
    ),
    "mixtral": _decoder(
        "mixtral", "MixtralForCausalLM", head_dim=24, num_local_experts=4, num_experts_per_tok=2, sliding_window=None
    ),
    "qwen2_moe": _decoder(
        "qwen2_moe", "Qwen2MoeForCausalLM", **EXPERTS, shared_expert_intermediate_size=80, decoder_sparse_step=2,
        mlp_only_layers=[], use_sliding_window=False, qkv_bias=True,
    ),
    "qwen2_moe of another head width": _decoder(
        "qwen2_moe", "Qwen2MoeForCausalLM", **EXPERTS, shared_expert_intermediate_size=80, mlp_only_layers=[0],
        use_sliding_window=False, qkv_bias=False, head_dim=24,
    ),
    "qwen3_moe": _decoder(
        "qwen3_moe", "Qwen3MoeForCausalLM", **EXPERTS, head_dim=24, decoder_sparse_step=1, mlp_only_layers=[1],
        attention_bias=False, use_sliding_window=False,
    ),
    "deepseek_v3": _decoder("deepseek_v3", "DeepseekV3ForCausalLM", **LATENT),
    "deepseek_v3 with plain queries": _decoder(
        "deepseek_v3", "DeepseekV3ForCausalLM", **{**LATENT, "q_lora_rank": None}
    ),
    "bert": {"model_type": "bert", "architectures": ["BertForMaskedLM"], **WORDS},
    "bert with pooler": {"model_type": "bert", "architectures": ["BertModel"], **WORDS},
    "bert for both tasks": {"model_type": "bert", "architectures": ["BertForPreTraining"], **WORDS},
    "bert with an output of its own": {
        "model_type": "bert", "architectures": ["BertForMaskedLM"], **WORDS, "tie_word_embeddings": False,
    },
    "bert for pairs": {"model_type": "bert", "architectures": ["BertForNextSentencePrediction"], **WORDS},
    "roberta for choices": {"model_type": "roberta", "architectures": ["RobertaForMultipleChoice"], **WORDS},
    "roberta": {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], **WORDS, "type_vocab_size": 1},
    "bert for sequences": {
        "model_type": "bert", "architectures": ["BertForSequenceClassification"], **WORDS, "num_labels": 5,
    },
    "bert for tokens": {
        "model_type": "bert", "architectures": ["BertForTokenClassification"], **WORDS, "num_labels": 5,
    },
    "bert for answers": {"model_type": "bert", "architectures": ["BertForQuestionAnswering"], **WORDS},
    "roberta for sequences": {
        "model_type": "roberta", "architectures": ["RobertaForSequenceClassification"], **WORDS, "num_labels": 5,
    },
    "roberta for tokens": {
        "model_type": "roberta", "architectures": ["RobertaForTokenClassification"], **WORDS, "num_labels": 5,
    },
    "gpt2 for sequences": {
        "model_type": "gpt2", "architectures": ["GPT2ForSequenceClassification"], "n_embd": 64, "n_layer": 3,
        "n_head": 4, "n_positions": 256, "vocab_size": 300, "tie_word_embeddings": True, "num_labels": 5,
        "pad_token_id": 0,
    },
    "vit": {"architectures": ["ViTForImageClassification"], **IMAGES, "num_labels": 10},
    "vit with pooler": {"architectures": ["ViTModel"], **IMAGES},
    "t5": T5,
    "t5 with gates": {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "t5 encoder": {**T5, "architectures": ["T5EncoderModel"]},
    "t5 without head": {**T5, "architectures": ["T5Model"]},
    "t5 for sequences": {**T5, "architectures": ["T5ForSequenceClassification"], "num_labels": 5},
    "t5 for tokens": {**T5, "architectures": ["T5ForTokenClassification"], "num_labels": 5},
    "t5 for answers": {**T5, "architectures": ["T5ForQuestionAnswering"]},
    "whisper": {"architectures": ["WhisperForConditionalGeneration"], **WHISPER},
    "whisper without head": {"architectures": ["WhisperModel"], **WHISPER},
    "whisper for sounds": {
        "architectures": ["WhisperForAudioClassification"], **WHISPER, "num_labels": 5, "classifier_proj_size": 48,
    },
}  # fmt: skip


def has_tokens(config: Mapping[str, Any]) -> bool:
    """Whether a sequence of tokens, whose length is free, is among a model's inputs."""
    return config["model_type"] != "vit" and config.get("architectures") != ["WhisperForAudioClassification"]
