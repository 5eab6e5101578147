"""Small models of many kinds, exported, with the figures of PyTorch itself; run by a Python that has torch.

Usage: torch_models.py FOLDER NAME... writes FOLDER/NAME.pt2 and prints {NAME: {"parameters", "forward", "backward"}}.
Models are made on the meta device where their code does not look at numbers.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

BATCH, TOKENS = 2, 48
NO_CACHE = {"use_cache": False}


def _transformers(name: str, architecture: str, inputs: dict[str, Any], **fields: Any) -> Any:
    def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
        import transformers

        config = transformers.AutoConfig.for_model(name, **fields)
        return getattr(transformers, architecture)(config), (), {key: make() for key, make in inputs.items()}

    return build


def _tokens() -> torch.Tensor:
    return torch.zeros((BATCH, TOKENS), dtype=torch.long)


def _false() -> bool:
    return False


class Block(nn.Module):
    """A residual block of convolutions."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, groups=4, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.short = nn.Conv2d(inner, outer, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.short(x)
        return self.relu(y)


class ResNet(nn.Module):
    """Convolutions in residual blocks, with operators that write to their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, 2, 3)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1))
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer2(self.layer1(self.pool(self.stem(x).relu_())))
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class UNet(nn.Module):
    """Convolutions down and up again, with connections across."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._two(3, 8), self._two(8, 16)])
        self.bottom = self._two(16, 32)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2, groups=2)])
        self.merge = nn.ModuleList([self._two(32, 16), self._two(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def _two(inner: int, outer: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.ReLU(), nn.Conv2d(outer, outer, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(kept), strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Recurrent(nn.Module):
    """Stacked recurrent layers of each kind, batch first or not, one way or both."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 24)
        self.lstm = nn.LSTM(24, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(64, 16, batch_first=True)
        self.rnn = nn.RNN(16, 8)
        self.out = nn.Linear(8, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(self.embed(x))
        y, _ = self.gru(y)
        y, _ = self.rnn(y.transpose(0, 1))
        return self.out(y)


class Mixture(nn.Module):
    """Experts chosen by a router, each token meeting two, their matrices in one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 4)
        self.up = nn.Parameter(torch.empty(4, 32, 64))
        self.down = nn.Parameter(torch.empty(4, 64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2)
        y = torch.einsum("td,tkdf->tkf", x, self.up[chosen])
        y = torch.einsum("tkf,tkfd->tkd", nn.functional.silu(y), self.down[chosen])
        return (y * weights[..., None]).sum(1)


class Products(nn.Module):
    """One of each product that nothing else here has."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(8, 16, 3, dilation=2)
        self.conv3 = nn.Conv3d(2, 4, 3, padding=1)
        self.back = nn.ConvTranspose1d(16, 8, 4, 2, output_padding=1)
        self.weight = nn.Parameter(torch.empty(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.back(self.conv1(x))
        z = torch.baddbmm(y @ y.mT, y, y.mT)
        z = torch.addmm(self.weight, z[0], self.weight) + torch.einsum("ij,jk,kl->il", z[0], self.weight, z[1])
        return self.conv3(z.reshape(1, 2, 4, 2, 4)) + self.weight.sum()


def _encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)


def _plain(build: Any, *shape: int, whole: bool = False) -> Any:
    def made() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
        return build(), (torch.zeros(shape, dtype=torch.long if whole else torch.float32),), {}

    return made


SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
MODELS: dict[str, Any] = {
    "resnet": _plain(ResNet, BATCH, 3, 64, 64),
    "unet": _plain(UNet, BATCH, 3, 32, 32),
    "recurrent": _plain(Recurrent, BATCH, TOKENS, whole=True),
    "mixture": _plain(Mixture, TOKENS, 32),
    "products": _plain(Products, BATCH, 8, 20),
    "encoder": _plain(_encoder, BATCH, TOKENS, 32),
    "gpt2": _transformers(
        "gpt2", "GPT2LMHeadModel", {"input_ids": _tokens, "use_cache": _false},
        n_embd=32, n_layer=2, n_head=4, vocab_size=500, n_positions=64, bos_token_id=0, eos_token_id=0,
    ),
    "llama": _transformers(
        "llama", "LlamaForCausalLM", {"input_ids": _tokens, "use_cache": _false},
        **SIZE, num_key_value_heads=2, vocab_size=500,
    ),
    "bert": _transformers("bert", "BertForMaskedLM", {"input_ids": _tokens}, **SIZE, vocab_size=500),
    "t5": _transformers(
        "t5", "T5ForConditionalGeneration",
        {"input_ids": _tokens, "decoder_input_ids": _tokens, "use_cache": _false},
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=500,
    ),
    "vit": _transformers(
        "vit", "ViTForImageClassification", {"pixel_values": lambda: torch.zeros(BATCH, 3, 32, 32)},
        **SIZE, image_size=32, patch_size=8,
    ),
    "whisper": _transformers(
        "whisper", "WhisperForConditionalGeneration",
        {"input_features": lambda: torch.zeros(BATCH, 20, 60), "decoder_input_ids": _tokens, "use_cache": _false},
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=20, max_source_positions=30, vocab_size=500,
        pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0,
    ),
    "mixtral": _transformers(
        "mixtral", "MixtralForCausalLM", {"input_ids": _tokens, "use_cache": _false},
        **SIZE, num_key_value_heads=2, vocab_size=500, num_local_experts=4, experts_implementation="batched_mm",
    ),
}  # fmt: skip


def convolution_backward_flops(
    gradient: Any, x: Any, weight: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    _output_padding: Any, groups: int, wanted: Any, out_shape: Any,
) -> int:  # fmt: skip
    """Return what torch counts, with the gradient of the weights of the pairs of channels that there are.

    torch takes it for the convolution of all input channels with all output channels, `groups` times too many.
    """
    counted = 0
    if wanted[0]:
        counted += conv_flop_count(gradient, weight, out_shape[0], not transposed)
    if wanted[1]:
        one, other, made = (gradient, x, out_shape[1]) if transposed else (x, gradient, out_shape[1])
        swapped = [[shape[1], shape[0], *shape[2:]] for shape in (one, other, made)]
        counted += conv_flop_count(*swapped, transposed=False) // groups
    return counted


def figures(name: str, path: Path) -> dict[str, float]:
    """Write the archive of a model, and return its parameters and the flops that torch counts."""
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]()
    model.eval()
    program = torch.export.export(model, args, kwargs, strict=False)
    torch.export.save(program, str(path))
    if name == "recurrent":  # kernels of CPUs for recurrent layers and attention are not counted
        model, args = model.to("meta"), tuple(arg.to("meta") for arg in args)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        output = model(*args, **kwargs)
    results = output.values() if isinstance(output, dict) else [output]
    total = sum(result.sum() for result in results if torch.is_tensor(result) and result.requires_grad)
    grouped = {torch.ops.aten.convolution_backward: convolution_backward_flops}
    with FlopCounterMode(display=False, custom_mapping=grouped) as backward:
        total.backward()
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "forward": counter.get_total_flops(),
        "backward": backward.get_total_flops(),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    print(json.dumps({name: figures(name, folder / f"{name}.pt2") for name in sys.argv[2:] or MODELS}))
