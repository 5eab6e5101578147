"""The models of `benchmarks.prediction`: random weights, nothing downloaded.

A model to train ends in its loss: its operators are so in the exported graph, are measured with the others, and run on
the last stage. Targets are its last input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 8192


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with a batch of inputs, of which each micro-batch has `micro_batch` rows."""

    model: nn.Module
    args: tuple[torch.Tensor, ...]
    micro_batch: int

    @property
    def example(self) -> tuple[torch.Tensor, ...]:
        """The inputs of the first micro-batch."""
        return tuple(arg[: self.micro_batch] for arg in self.args)


class Loss(nn.Module):
    """A model and the mean cross entropy of its output, as a tensor of one number."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        output = self.model(*inputs[:-1])
        return functional.cross_entropy(output.flatten(0, -2), inputs[-1].flatten()).reshape(1)


class Logits(nn.Module):
    """A model of transformers without its cache, whose output is its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.model(ids, use_cache=False).logits
        return logits


class Uneven(nn.Module):
    """Layers of very different widths: a norm, two products and an activation each."""

    def __init__(self, width: int, inner: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, own), nn.GELU(), nn.Linear(own, width)) for own in inner
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the last layer makes of a batch."""
        for layer in self.layers:
            x = x + layer(x)
        output: torch.Tensor = self.head(x)
        return output


class Block(nn.Module):
    """A residual block of two convolutions (He et al., CVPR 2016, figure 2)."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        stride = 1 if inner == outer else 2
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the block makes of a batch."""
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    """A ResNet-18: eight residual blocks of four widths."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        first = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.stem = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = [width * factor for factor in (1, 1, 1, 2, 2, 4, 4, 8, 8)]
        self.layers = nn.ModuleList(Block(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(8 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the last layer makes of images."""
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        output: torch.Tensor = self.head(x.mean((2, 3)))
        return output


class EncoderDecoder(nn.Module):
    """Four layers that read a text and four that write one, each of which reads what the first four made of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(VOCABULARY, width), nn.Embedding(VOCABULARY, width)
        self.transformer = nn.Transformer(width, 8, 4, 4, 4 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids: torch.Tensor, decoder_ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the text that is written."""
        mask = nn.Transformer.generate_square_subsequent_mask(decoder_ids.shape[1])
        read, written = self.source(ids), self.target(decoder_ids)
        logits: torch.Tensor = self.head(self.transformer(read, written, tgt_mask=mask, tgt_is_causal=True))
        return logits


def _uneven(width: int) -> tuple[nn.Module, Any, Any]:
    inner = (width // 2, 8 * width, width, 2 * width, 6 * width, width // 2, 4 * width, width, 8 * width, 2 * width)
    return Uneven(width, inner, width), (_normal(width, width),), (width,)


def _gpt2(width: int) -> tuple[nn.Module, Any, Any]:
    import transformers

    config = transformers.GPT2Config(
        n_embd=width, n_layer=6, n_head=8, n_positions=width // 2, vocab_size=VOCABULARY, tie_word_embeddings=False,
        bos_token_id=0, eos_token_id=0, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
    )  # fmt: skip
    return Logits(transformers.GPT2LMHeadModel(config)), (_tokens(width // 2),), (width // 2,)


def _llama(width: int) -> tuple[nn.Module, Any, Any]:
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=11 * width // 4, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, vocab_size=VOCABULARY,
    )  # fmt: skip
    return Logits(transformers.LlamaForCausalLM(config)), (_tokens(width // 2),), (width // 2,)


def _resnet(width: int) -> tuple[nn.Module, Any, Any]:
    return ResNet(width // 8, 100), (_normal(3, width // 4, width // 4),), ()


def _encoder_decoder(width: int) -> tuple[nn.Module, Any, Any]:
    return EncoderDecoder(width), (_tokens(width // 2), _tokens(width // 4)), (width // 4,)


MODELS: Mapping[str, tuple[Callable[[int], tuple[nn.Module, Any, Any]], int]] = {
    "uneven": (_uneven, 1),
    "gpt2": (_gpt2, 1),
    "llama": (_llama, 1),
    "resnet": (_resnet, 8),
    "encoder-decoder": (_encoder_decoder, 1),
}
"""How each model is made of a width, with its inputs and the shape of its targets, and the rows of a micro-batch."""


def subject(name: str, width: int, micro_batches: int, *, is_training: bool) -> Subject:
    """Return a model of some width and its batch, the same in every process that asks."""
    torch.manual_seed(0)
    build, micro_batch = MODELS[name]
    rows = micro_batch * micro_batches
    model, inputs, target = build(width)
    args = tuple(make(rows) for make in inputs)
    if is_training:
        model, args = Loss(model), (*args, torch.randint(0, 64, (rows, *target)))
    return Subject(model.train(is_training), args, micro_batch)


def _normal(*shape: int) -> Callable[[int], torch.Tensor]:
    return lambda rows: torch.randn(rows, *shape)


def _tokens(count: int) -> Callable[[int], torch.Tensor]:
    return lambda rows: torch.randint(0, VOCABULARY, (rows, count))
