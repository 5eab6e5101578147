"""Small models for the scripts that torch.distributed.pipelining runs; each function returns what a script asks for."""

from typing import Any

TOKENS = 16


def _loss(output: Any, target: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def _ids(vocabulary: int) -> Any:
    import torch

    torch.manual_seed(0)
    return torch.randint(0, vocabulary, (8, TOKENS))


def llama() -> tuple[Any, ...]:
    """Return a Llama of four blocks, a batch, a loss and targets."""
    import transformers

    ids = _ids(LLAMA["vocab_size"])
    fields = {key: value for key, value in LLAMA.items() if key not in ("model_type", "architectures")}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**fields, use_cache=False))
    return model, (ids,), _loss, ids


def gpt2() -> tuple[Any, ...]:
    """Return a GPT-2 of three blocks, a batch, a loss and targets."""
    import transformers

    ids = _ids(GPT2["vocab_size"])
    fields = {key: value for key, value in GPT2.items() if key not in ("model_type", "architectures")}
    drops = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**fields, **drops, use_cache=False))
    return model, (ids,), _loss, ids


def t5() -> tuple[Any, ...]:
    """Return a T5 of two blocks in the encoder and two in the decoder, and a batch for each, to run forward."""
    import torch
    import transformers

    fields = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 97}
    config = transformers.T5Config(**fields, use_cache=False)

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.t5 = transformers.T5ForConditionalGeneration(config)

        def forward(self, source: Any, target: Any) -> Any:
            return self.t5(input_ids=source, decoder_input_ids=target, return_dict=False)[0]

    source = _ids(97)
    return Logits().eval(), (source, source[:, :8])


def residual() -> tuple[Any, ...]:
    """Return linear layers with a connection that skips two of them, and an input that the last one reads too."""
    import torch

    class Residual(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = (torch.nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: Any) -> Any:
            a = self.first(x)
            b = torch.relu(self.second(a))
            return self.third(b) + a + x

    torch.manual_seed(0)
    return Residual(), (torch.randn(8, 3, 8),), _loss, torch.randint(0, 8, (8, 3))


def swapped() -> tuple[Any, ...]:
    """Return linear layers of which the first one reads the second of two inputs, and the second the first one."""
    import torch

    class Swapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third, self.fourth = (torch.nn.Linear(8, 8) for _ in range(4))

        def forward(self, x: Any, y: Any) -> Any:
            a = torch.relu(self.first(y))
            b = self.second(x)
            return self.fourth(torch.relu(self.third(a + b)))

    torch.manual_seed(0)
    batch = torch.randn(8, 3, 8), torch.randn(8, 3, 8)
    return Swapped(), batch, _loss, torch.randint(0, 8, (8, 3))


LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97,
    "tie_word_embeddings": False,
}  # fmt: skip
GPT2: dict[str, Any] = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 3, "n_head": 4,
    "n_positions": 64, "vocab_size": 97, "tie_word_embeddings": False,
}  # fmt: skip
