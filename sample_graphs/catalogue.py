"""The samples: how each is built, on what devices it starts, and what was published about its model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sample_graphs.convolutional import inception_v3, resnet50, unet
from sample_graphs.cost_model import ACCELERATOR, COSTS
from sample_graphs.recurrent import gnmt
from sample_graphs.teaching import teaching_chain, teaching_convex_beats_chain, teaching_tied_embedding
from sample_graphs.transformers import GPT2_XL, LLAMA3_8B, MIXTRAL_8X7B, bert_base, decoder, tied_copy_parameters
from solvers.importers.inference import inference_graph
from solvers.importers.network import Network
from solvers.importers.training import training_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph


@dataclass(frozen=True, slots=True)
class Published:
    """What was published about a model, and where; flops are of the forward pass, in the unit of the source.

    `parameters` counts tied matrices once; `tied_copy` is how many more our graph holds. `flops` is per image or
    sequence where `per` is 1, per token where `per` is the number of tokens; None where we know of no figure for
    this input size.
    """

    parameters: float
    parameters_source: str
    flops: float | None
    flops_source: str
    per: int = 1
    tied_copy: int = 0

    def compare(self, network: Network) -> tuple[float, float]:
        """Return the parameters and the forward flops of `network`, counted the way the published figures are."""
        return network.parameters - self.tied_copy, network.flops / network.micro_batch / self.per


@dataclass(frozen=True, slots=True)
class Model:
    """One network at one micro-batch; `build(training)` returns it, with a loss if it is trained."""

    title: str
    paper: str
    build: Callable[[bool], Network]
    published: Published
    micro_batch_text: str
    unit: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One file: `name` is its stem; `title` and `description` are for menus."""

    name: str
    title: str
    description: str
    build: Callable[[], tuple[DnnGraph, Deployment]]
    model: Model | None = None


def _flops_of_decoder(parameters: float, num_layers: int, width: int, num_tokens: int) -> float:
    """Return the forward flops per token, 2N + 4·L·d·T: Chowdhery et al., "PaLM", 2022, appendix B, a third of it.

    N counts the parameters a token is multiplied with: an input embedding that is only looked up is left out.
    """
    return 2 * parameters + 4 * num_layers * width * num_tokens


PALM = "2N + 4LdT per token (PaLM, appendix B)"

RESNET50 = Model(
    "ResNet-50",
    "He et al., CVPR 2016",
    lambda training: resnet50(16, training=training),
    Published(25_557_032, "torchvision model table", 2 * 4.089e9, "torchvision model table, 4.089 G multiply-adds"),
    "16 images of 224 × 224",
    "images",
)
INCEPTION_V3 = Model(
    "Inception-v3",
    "Szegedy et al., CVPR 2016",
    lambda _: inception_v3(16),
    Published(
        27_161_264 - 3_326_696,
        "torchvision model table, less its auxiliary classifier",
        2 * 5.713e9,
        "torchvision model table, 5.713 G multiply-adds",
    ),
    "16 images of 299 × 299",
    "images",
)
UNET = Model(
    "U-Net",
    "Ronneberger et al., MICCAI 2015",
    lambda training: unet(1, training=training),
    Published(31.03e6, "later papers, for the layers of figure 1", None, "none known for 572 × 572"),
    "1 image of 572 × 572",
    "images",
)
GNMT = Model(
    "GNMT",
    "Wu et al., arXiv 1609.08144",
    lambda training: gnmt(32, 32, training=training),
    Published(
        278e6,
        "Shazeer et al., ICLR 2017, table 2",
        2 * 214e6,
        "Shazeer et al., ICLR 2017, table 2, 214 M multiply-adds per token",
        per=32,
    ),
    "32 sentence pairs of 32 + 32 tokens",
    "sentence pairs",
    64,
)
BERT_BASE = Model(
    "BERT-base",
    "Devlin et al., NAACL 2019",
    lambda training: bert_base(8, 128, training=training),
    Published(
        109_482_240,
        "Hugging Face bert-base-uncased, without heads",
        22.5e9,
        "Sun et al., MobileBERT, ACL 2020, results on GLUE, at 128 tokens",
    ),
    "8 sequences of 128 tokens",
    "sequences",
    128,
)
GPT2 = Model(
    "GPT-2 XL",
    "Radford et al., 2019",
    lambda training: decoder(GPT2_XL, 2, 1024, training=training),
    Published(
        1_557_611_200,
        "Hugging Face gpt2-xl; 1558M in OpenAI's release",
        _flops_of_decoder(1_557_611_200, 48, 1600, 1024),
        PALM,
        per=1024,
        tied_copy=tied_copy_parameters(GPT2_XL),
    ),
    "2 sequences of 1024 tokens",
    "sequences",
    1024,
)
LLAMA3 = Model(
    "Llama-3-8B",
    "Grattafiori et al., arXiv 2407.21783",
    lambda training: decoder(LLAMA3_8B, 1, 2048, training=training),
    Published(
        8_030_261_248,
        "Meta-Llama-3-8B model card, 8.03 B",
        _flops_of_decoder(8_030_261_248 - 128256 * 4096, 32, 4096, 2048),
        PALM,
        per=2048,
    ),
    "1 sequence of 2048 tokens",
    "sequences",
    2048,
)
MIXTRAL = Model(
    "Mixtral 8x7B",
    "Jiang et al., arXiv 2401.04088",
    lambda training: decoder(MIXTRAL_8X7B, 1, 2048, training=training),
    Published(
        46.7e9,
        'Mistral AI, "Mixtral of experts", 46.7 B',
        _flops_of_decoder(12.9e9 - 32000 * 4096, 32, 4096, 2048),
        f"{PALM}, N = 12.9 B active (Mistral AI)",
        per=2048,
    ),
    "1 sequence of 2048 tokens",
    "sequences",
    2048,
)

MODELS = (BERT_BASE, RESNET50, INCEPTION_V3, UNET, GNMT, GPT2, LLAMA3, MIXTRAL)
"""The models behind the samples that are not for teaching."""


def _inference(name: str, title: str, description: str, model: Model, num_accelerators: int) -> Sample:
    return Sample(name, title, description, partial(_place, title, model, num_accelerators, False), model)


def _training(name: str, title: str, description: str, model: Model, num_accelerators: int) -> Sample:
    return Sample(name, title, description, partial(_place, title, model, num_accelerators, True), model)


def _place(title: str, model: Model, num_accelerators: int, training: bool) -> tuple[DnnGraph, Deployment]:
    """Return the titled graph and its default devices: so many accelerators of the cost model, and one CPU."""
    network = replace(model.build(training), name=title, unit=model.unit, tokens_per_sample=model.tokens)
    graph = training_graph(network, COSTS, gradients_are_one=True) if training else inference_graph(network, COSTS)
    return graph, Deployment(num_accelerators, 1, ACCELERATOR.processor.memory_bytes)


SAMPLES: tuple[Sample, ...] = (
    Sample(
        "teaching_chain",
        "Teaching: a chain",
        "Six layers in a row on three accelerators: where to cut?",
        teaching_chain,
    ),
    Sample(
        "teaching_convex_beats_chain",
        "Teaching: convex beats chain",
        "Four nodes, two accelerators: 5 ms as a pipeline of stages, 4 ms when data may flow both ways.",
        teaching_convex_beats_chain,
    ),
    Sample(
        "teaching_tied_embedding",
        "Teaching: tied embedding",
        "Embedding and output share weights: any chain needs one device, a free split is twice as fast.",
        teaching_tied_embedding,
    ),
    _inference(
        "bert_base_operator_inference",
        "BERT-base, inference, by operators",
        "Twelve encoder blocks, every matrix product, bias and softmax a node.",
        BERT_BASE,
        4,
    ),
    _training(
        "bert_base_operator_training",
        "BERT-base, training, by operators",
        "Fine-tuning: forward and backward pass, each pair of twins on one device.",
        BERT_BASE,
        6,
    ),
    _inference(
        "resnet50_operator_inference",
        "ResNet-50, inference, by operators",
        "Sixteen residual blocks: convolution, normalisation, activation.",
        RESNET50,
        4,
    ),
    _training(
        "resnet50_operator_training",
        "ResNet-50, training, by operators",
        "Sixteen residual blocks, forward and backward; early activations are large, late weights are.",
        RESNET50,
        4,
    ),
    _inference(
        "inception_v3_operator_inference",
        "Inception-v3, inference, by operators",
        "Parallel branches of convolutions in every module: many ways to cut.",
        INCEPTION_V3,
        6,
    ),
    _inference(
        "unet_operator_inference",
        "U-Net, inference, by operators",
        "Long skip connections from the way down to the way up: every cut pays for those it crosses.",
        UNET,
        3,
    ),
    _training(
        "unet_operator_training",
        "U-Net, training, by operators",
        "Long skip connections, forward and backward.",
        UNET,
        3,
    ),
    _inference(
        "gnmt_layer_inference",
        "GNMT, inference, by layers",
        "Eight encoder and eight decoder LSTMs with residuals and attention, scoring translations.",
        GNMT,
        6,
    ),
    _training(
        "gnmt_layer_training",
        "GNMT, training, by layers",
        "Eight encoder and eight decoder LSTMs with residuals and attention, forward and backward.",
        GNMT,
        6,
    ),
    _inference(
        "gpt2_xl_layer_inference",
        "GPT-2 XL, inference, by layers",
        "Forty-eight blocks on a prompt; fits one accelerator of 16 GB, runs better on several.",
        GPT2,
        8,
    ),
    _training(
        "gpt2_xl_layer_training",
        "GPT-2 XL, training, by layers",
        "Forty-eight blocks, forward and backward; weights and optimizer alone overflow one accelerator of 16 GB.",
        GPT2,
        4,
    ),
    _inference(
        "llama3_8b_layer_inference",
        "Llama-3-8B, inference, by layers",
        "Thirty-two blocks on a prompt of 2048 tokens; the weights do not fit one accelerator of 16 GB.",
        LLAMA3,
        4,
    ),
    _training(
        "llama3_8b_layer_training",
        "Llama-3-8B, training, by layers",
        "Thirty-two blocks, forward and backward, in tight memory: the embedding alone fills half of 16 GB.",
        LLAMA3,
        10,
    ),
    _inference(
        "mixtral_8x7b_layer_inference",
        "Mixtral 8x7B, inference, by layers",
        "Eight experts side by side in each of thirty-two blocks: a wide graph with 93 GB of weights.",
        MIXTRAL,
        8,
    ),
)
"""All samples in the order of a menu."""
