"""Problems that no solver here was tuned for: networks as published, on links that cost a fifth to half of a load.

`bert_24` and `bert_36` are BERT-base with as many layers, by operators: 1,299 and 1,947 nodes in training.
`Case.name` is network/pass/link/family/devices, such as densenet121/training/pcie/free/4+1: four accelerators, a CPU.
With `pcie` tensors move at 12.6 GB/s; `free` is a thousand times as fast, the other extreme.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

from benchmarks import held_out
from sample_graphs.cells import amoebanet_a, nasnet_a_large, nasnet_a_mobile
from sample_graphs.cost_model import ACCELERATOR, COSTS
from sample_graphs.image_classifiers import densenet121, resnext50, vgg16
from sample_graphs.recurrent import gnmt
from sample_graphs.transformers import bert_base
from solvers.importers.inference import inference_graph
from solvers.importers.network import Network
from solvers.importers.training import training_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family

NETWORKS: dict[str, Callable[[bool], Network]] = {
    "vgg16": lambda training: vgg16(32, training=training),
    "densenet121": lambda training: densenet121(32, training=training),
    "resnext50": lambda training: resnext50(32, training=training),
    "nasnet_mobile": lambda training: nasnet_a_mobile(32, training=training),
    "nasnet_large": lambda training: nasnet_a_large(8, training=training),
    "amoebanet": lambda training: amoebanet_a(32, training=training),
    "lstm_8_8": lambda training: gnmt(64, 50, training=training),
    "bert_24": lambda training: bert_base(8, 128, training=training, num_layers=24),
    "bert_36": lambda training: bert_base(8, 128, training=training, num_layers=36),
}
"""Each at a micro-batch for which transfers over PCIe count."""

HELD_OUT: dict[str, Callable[[bool], Network]] = {
    "randwire": lambda training: held_out.randomly_wired(32, training=training),
    "hrnet": lambda training: held_out.hrnet_w32(16, training=training),
    "efficientnet": lambda training: held_out.efficientnet_b4(16, training=training),
    "unet_pp": lambda training: held_out.unet_plus_plus(8, training=training),
    "efficientdet": lambda training: held_out.efficientdet(4, training=training),
    "wavenet": lambda training: held_out.wavenet(4, training=training),
    "clip": lambda training: held_out.clip(32, training=training),
    "t5": lambda training: held_out.t5_base(8, training=training),
    "dlrm": lambda training: held_out.dlrm(2048, training=training),
    "diffusion": lambda training: held_out.diffusion_unet(4, training=training),
}
"""Other shapes, which no solver was developed on."""

LINKS = {"pcie": 1.0, "free": 1000.0}
"""How many times as fast as PCIe 3.0 x16."""

COUNTS = (2, 4, 8)
"""Numbers of accelerators."""

EVERY_FREE = 3
"""In a sample one of so many graphs has nearly free transfers as well."""


@dataclass(frozen=True, slots=True)
class Case:
    """One problem."""

    network: str
    training: bool
    link: str
    family: Family
    num_accelerators: int
    num_cpus: int

    @property
    def name(self) -> str:
        """Network, pass, link, family and devices, divided by slashes."""
        what = "training" if self.training else "inference"
        return f"{self.network}/{what}/{self.link}/{self.family}/{self.num_accelerators}+{self.num_cpus}"

    @property
    def deployment(self) -> Deployment:
        """The devices, with the memory of the accelerator whose times the graph has."""
        return Deployment(self.num_accelerators, self.num_cpus, ACCELERATOR.processor.memory_bytes)

    def graph(self) -> DnnGraph:
        """Return the graph."""
        return testbed(self.network, self.training, self.link)


@cache
def testbed(network: str, training: bool, link: str) -> DnnGraph:
    """Return the graph of one network, as the bundled graphs are made."""
    costs = replace(COSTS, link_bytes_per_ms=COSTS.link_bytes_per_ms * LINKS[link])
    built = (NETWORKS | HELD_OUT)[network](training)
    return training_graph(built, costs, gradients_are_one=True) if training else inference_graph(built, costs)


def cases() -> Iterator[Case]:
    """Yield all problems; those with nearly free transfers only without a CPU."""
    for network in NETWORKS | HELD_OUT:
        for training in (False, True):
            for link in LINKS:
                for family in (Family.CHAIN, Family.CONVEX, Family.FREE):
                    for count in COUNTS:
                        for num_cpus in (0, 1) if link == "pcie" else (0,):
                            yield Case(network, training, link, family, count, num_cpus)


def sample() -> Iterator[Case]:
    """Yield 51 problems of each family that nobody chose: every graph with some number of devices, by turns.

    All are on PCIe, and every third graph has nearly free transfers as well.
    """
    graphs: dict[str, list[list[Case]]] = {link: [] for link in LINKS}
    for (link, _, _), of_graph in groupby(cases(), lambda case: (case.link, case.network, case.training)):
        graphs[link].append(list(of_graph))
    for of_link in (graphs["pcie"], graphs["free"][::EVERY_FREE]):
        for turn, of_graph in enumerate(of_link):
            for family in Family:
                choices = [case for case in of_graph if case.family is family]
                # One further each time around, lest the inference of all networks have no CPU.
                yield choices[(turn + turn // len(choices)) % len(choices)]
