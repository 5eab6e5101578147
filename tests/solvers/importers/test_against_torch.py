"""Parameters and flops of imported archives are those of PyTorch, where it is installed.

IMPORT_TORCH_PYTHON names a Python that has torch and transformers; nothing is downloaded.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from solvers.importers.imported import Imported
from solvers.importers.sources import import_source
from solvers.importers.workload import Level, Mode, Workload
from solvers.model.graph import Node
from tests.support.importing import python_with_transformers, usual_devices
from tests.support.root import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch]

NAMES = (
    "resnet", "unet", "recurrent", "mixture", "products", "encoder", "gpt2", "llama", "bert", "t5", "vit", "whisper",
    "mixtral",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@cache
def figures(folder: Path) -> dict[str, dict[str, float]]:
    """Write the archives of all models and return what torch says of them."""
    script = ROOT / "tests" / "support" / "torch_models.py"
    command = [python_with_transformers(), str(script), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def imported(folder: Path, name: str, mode: Mode) -> Imported:
    workload = Workload(mode=mode, level=Level.OPERATORS)
    return import_source(str(folder / f"{name}.pt2"), workload, usual_devices())


def again(node: Node) -> float:
    """Return the flops of scores, of 2.5 times the forward flops, that only the fused kernel does again."""
    return (node.flops or 0.0) / 5 if node.is_backward and "scaled_dot_product" in node.name else 0.0


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_flops_are_those_of_torch(folder: Path, name: str) -> None:
    figure = figures(folder)[name]
    found = imported(folder, name, Mode.PREFILL)
    assert found.totals.parameters == figure["parameters"]
    assert found.totals.forward_flops == figure["forward"]
    assert not any("Not known" in sentence for sentence in found.assumptions)
    trained = imported(folder, name, Mode.TRAINING)
    assert trained.totals.forward_flops == figure["forward"]
    scores = sum(map(again, trained.graph.nodes))
    assert trained.totals.backward_flops - scores == pytest.approx(figure["backward"], rel=0.01)


def test_a_model_in_memory_needs_no_weights_and_stays_as_it_is() -> None:
    """Run where torch is: a model of a hundred billion parameters on the meta device, and a small one with weights."""
    code = """
import torch
from solvers.hardware.catalogue import catalogue
from solvers.importers.workload import Devices
from solvers.torch_models.export import graph_of

known = catalogue()
devices = Devices(known.accelerator("H100-SXM"), known.link("nvlink4"), known.host("Xeon-8480"))
with torch.device("meta"):
    large = torch.nn.Sequential(*(torch.nn.Linear(100_000, 100_000, bias=False) for _ in range(10)))
found = graph_of(large, (torch.zeros(1, 100_000),), devices=devices)
assert found.totals.parameters == 10**11, found.totals
assert len(found.graph.nodes) == 10
small = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
small.append(small[0])
before = small[0].weight.clone()
found = graph_of(small, (torch.zeros(2, 3),), devices=devices)
assert found.totals.parameters == 12, found.totals
assert torch.equal(small[0].weight, before) and small[0].weight is small[2].weight
print("done")
"""
    done = subprocess.run(  # noqa: S603
        [python_with_transformers(), "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout == "done\n", done.stderr[-3000:]


def test_a_profile_measures_every_operator_of_an_archive_and_of_a_function(folder: Path) -> None:
    """Nothing about how long it takes is asserted, but that all that runs takes some time."""
    (folder / "own_model.py").write_text(
        """
import torch

def small():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 8))
    return model.eval(), (torch.zeros(2, 8),)

class Complex(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(8, 8, dtype=torch.complex64))

    def forward(self, x):
        return torch.view_as_real(x @ self.w)

def wrong():
    return 3
"""
    )
    code = """
import torch
import own_model
from solvers.hardware.catalogue import catalogue
from solvers.importers.workload import Devices, Level, Mode, Workload
from solvers.model.errors import SourceError
from solvers.torch_models.export import graph_of
from solvers.torch_models.link import measure_link
from solvers.torch_models.operators import Program
from solvers.torch_models.profile import Profile, profile_model

if __name__ == "__main__":
    known = catalogue()
    devices = Devices(known.accelerator("H100-SXM"), known.link("nvlink4"), known.host("Xeon-8480"))
    model, args = own_model.small()
    torch.export.save(torch.export.export(model, args, strict=False), "own_model.pt2")
    asked = Profile(warm_up=1, repetitions=3)
    for source in ("own_model.pt2", "own_model:small"):
        for mode in (Mode.PREFILL, Mode.TRAINING):
            found = graph_of(model, args, devices=devices, workload=Workload(mode=mode, level=Level.OPERATORS))
            graph, on = profile_model(found.graph, source, asked)
            assert "1 thread, torch" in on, on
            for node in graph.nodes:
                assert (node.accelerator_ms > 0) == ("input" not in node.name), node
    waves = (torch.ones(2, 8, dtype=torch.complex64),)
    program = Program(torch.export.export(own_model.Complex(), waves), torch.device("cpu"), is_training=True)
    program.run()
    (product,) = program.calls["matmul"]
    assert len(product.backward) == 1, "weights may be complex"
    link = measure_link(1, 3)
    assert link.latency_ms > 0 and link.bandwidth_bytes_per_ms > 0
    for source, told in (
        ("nothing", "is no file and not module:function"),
        ("own_model:nothing", "There is no own_model:nothing"),
        ("own_model:wrong", "returned no (model, args)"),
        ("own_model.py", "is no archive of torch.export"),
    ):
        try:
            profile_model(found.graph, source, asked)
        except SourceError as error:
            assert told in str(error), error
        else:
            raise AssertionError(source)
    print("done")
"""
    (folder / "profiled.py").write_text(code)
    done = subprocess.run(  # noqa: S603
        [python_with_transformers(), "profiled.py"],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr[-3000:]
