"""Damaged files of every format that is imported: each is imported, or refused in one sentence.

`python -m benchmarks.import_mutations [--files 5000] [--first 0] [ONNX FILE ...]` makes as many files of each format by
a seeded generator, the same ones every time, and imports them one after the other. It prints how many were imported
and refused, the slowest, the peaks of memory while files were made and while they were imported, and every fault: an
exception that is no refusal, a refusal that is not one sentence, or an import of more than 10 s. A file given is
damaged in place of the small models.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import onnx

from benchmarks.mutations import BYTE_CHANGES, changed_document
from solvers.importers.sources import import_file
from solvers.importers.workload import Level, Mode, Workload
from solvers.model.errors import PlacementError
from tests.support.importing import usual_devices
from tests.support.onnx_models import KINDS
from tests.support.profiles import PIPEDREAM, piper

HANG_S = 10.0
CLEAR_REFS, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
NUMBERS = (0, 1, -1, 2, 7, 2**31, -(2**31), 2**62, -(2**63), 10**9)
OPERATORS = (
    "Conv Reshape Loop Scan If Gather Range Expand Tile ConstantOfShape Resize Pad Einsum LSTM Attention Split Slice "
    "OneHot TopK NonZero SequenceEmpty SequenceAt SequenceInsert SequenceErase SplitToSequence ConcatFromSequence "
    "SequenceMap SequenceLength Optional OptionalGetElement OptionalHasElement MatMulNBits GroupQueryAttention "
    "Nonsense Constant Cast Shape Size Concat Pow"
)


def damaged_onnx(rng: random.Random, model: onnx.ModelProto) -> tuple[str, bytes]:
    """Return what was done to a copy of a model, and the file."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    what = ""
    for _ in range(rng.choice((1, 1, 2, 5))):
        change = rng.choice((_operator, _operator, _attribute, _attribute, _tensor, _shape, _whole_model))
        what = change(rng, changed)
    content = changed.SerializeToString()
    return what, content


def _any_node(rng: random.Random, model: onnx.ModelProto) -> onnx.NodeProto:
    node: onnx.NodeProto = rng.choice(model.graph.node) if model.graph.node else model.graph.node.add()
    inner = [a.g for a in node.attribute if a.HasField("g") and a.g.node]
    return rng.choice(inner[0].node) if inner and rng.random() < 0.5 else node


def _operator(rng: random.Random, model: onnx.ModelProto) -> str:
    node = _any_node(rng, model)
    what = rng.choice(("kind", "input", "left out", "output", "gone", "twice", "name", "domain"))
    if what == "kind":
        node.op_type = rng.choice(OPERATORS.split())
    elif what == "input" and node.input:
        names = [name for other in model.graph.node for name in other.output] + ["", "nowhere"]
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif what == "left out" and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif what == "output" and node.output:
        del node.output[rng.randrange(len(node.output))]
    elif what == "gone":
        node.Clear()
    elif what == "twice":
        model.graph.node.add().CopyFrom(node)
    elif what == "name":
        node.name = rng.choice(("\u202e", "../../etc/passwd", "x" * 100_000, "/a.1/b.2/c", "\n\n", "=HYPERLINK()"))
    else:
        node.domain = rng.choice(("com.microsoft", "f", "nobody", "ai.onnx.ml"))
    return f"operator {what}"


def _attribute(rng: random.Random, model: onnx.ModelProto) -> str:
    node = _any_node(rng, model)
    if not node.attribute or rng.random() < 0.3:
        name = rng.choice(
            [
                "axis",
                "axes",
                "pads",
                "group",
                "to",
                "num_heads",
                "N",
                "K",
                "bits",
                "hidden_size",
                "num_scan_inputs",
                "perm",
                "value",
            ]
        )
        node.attribute.add().CopyFrom(
            onnx.helper.make_attribute(name, rng.choice((rng.choice(NUMBERS), [rng.choice(NUMBERS)] * 3, "text", 1e38)))
        )
        return "attribute new"
    attribute = rng.choice(node.attribute)
    what = rng.choice(("gone", "number", "numbers", "kind"))
    if what == "gone":
        node.attribute.remove(attribute)
    elif what == "number":
        attribute.i = rng.choice(NUMBERS)
    elif what == "numbers":
        attribute.ints[:] = [rng.choice(NUMBERS) for _ in range(rng.choice((0, 1, 4, 1000)))]
    else:
        attribute.type = rng.randrange(14)  # type: ignore[assignment]
    return f"attribute {what}"


def _tensor(rng: random.Random, model: onnx.ModelProto) -> str:
    if not model.graph.initializer:
        return "nothing"
    tensor = rng.choice(model.graph.initializer)
    what = rng.choice(("dims", "type", "data", "path", "name", "values"))
    if what == "dims":
        tensor.dims[:] = [rng.choice(NUMBERS) for _ in range(rng.choice((0, 1, 2, 70)))]
    elif what == "type":
        tensor.data_type = rng.choice((0, 1, 6, 7, 8, 9, 16, 21, 99, -1))
    elif what == "data":
        tensor.raw_data = rng.randbytes(rng.choice((0, 1, 100)))
    elif what == "path":
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", rng.choice(("/etc/passwd", "../../x", "\0"))
    elif what == "values":
        values = [rng.choice(NUMBERS) for _ in range(rng.choice((1, 2, 4)))]
        tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, onnx.TensorProto.INT64, [len(values)], values))
    else:
        tensor.name = rng.choice(("", "x", "\0"))
    return f"tensor {what}"


def _shape(rng: random.Random, model: onnx.ModelProto) -> str:
    infos = [*model.graph.input, *model.graph.output]
    info = rng.choice(infos) if infos else model.graph.input.add()
    what = rng.choice(("size", "type", "rank", "gone", "other"))
    dims = info.type.tensor_type.shape.dim
    if what == "size" and dims:
        rng.choice(dims).dim_value = rng.choice(NUMBERS)
    elif what == "type":
        info.type.tensor_type.elem_type = rng.choice((0, 7, 9, 99))
    elif what == "rank":
        for _ in range(rng.choice((1, 100))):
            dims.add().dim_param = "?"
    elif what == "gone":
        info.type.Clear()
    else:
        info.type.sequence_type.elem_type.tensor_type.elem_type = 1
    return f"shape {what}"


def _whole_model(rng: random.Random, model: onnx.ModelProto) -> str:
    what = rng.choice(("opset", "functions", "outputs", "order", "many"))
    if what == "opset" and model.opset_import:
        rng.choice(model.opset_import).version = rng.choice((-1, 0, 1, 7, 13, 24, 99, 2**40))
    elif what == "functions":
        for _ in range(rng.choice((1, 40))):
            function = model.functions.add()
            function.domain, function.name = "f", rng.choice(("F0", "F1", "Add"))
            function.node.add(op_type=rng.choice(("F0", "F1", "Relu")), domain="f", input=["x"], output=["y"])
    elif what == "outputs":
        model.graph.output.add().name = "nowhere"
    elif what == "order":
        nodes = list(model.graph.node)
        rng.shuffle(nodes)
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    else:
        for node in list(model.graph.node)[:3]:
            model.graph.node.extend([node] * 200)
    return f"model {what}"


def hostile(number: int, kind: str, models: list[onnx.ModelProto]) -> tuple[str, bytes]:
    """Return what was done, and the file, of this number and format."""
    rng = random.Random(number)  # noqa: S311 -- the same file every time
    if kind == "onnx":
        model = models[number % len(models)]
        if rng.random() < 0.6:
            return damaged_onnx(rng, model)
        content = model.SerializeToString()
    elif kind == "piper":
        if rng.random() < 0.6:
            return changed_document(rng, piper())
        content = json.dumps(piper()).encode()
    else:
        content = PIPEDREAM.encode()
    what = rng.choice(list(BYTE_CHANGES))
    return what, BYTE_CHANGES[what](rng, content)


def fault_of(content: bytes, done: Counter[str], number: int) -> str | None:
    """Import a file; return what is wrong with how that went."""
    asked: dict[str, Any] = {
        "level": tuple(Level)[number % 2],
        "mode": Mode.TRAINING if number % 5 == 0 else Mode.PREFILL,
        "dims": (("*", 4),) if number % 3 == 0 else (),
    }
    began_s = time.monotonic()
    try:
        import_file(BytesIO(content), Workload(**asked), usual_devices(), "a trial")
        done["imported"] += 1
    except PlacementError as error:
        done["refused"] += 1
        text = str(error)
        if "\n" in text or not text.endswith(".") or len(text) > 1_500 or not text.isprintable():
            return f"not one sentence: {text[:300]!r}"
    except Exception as error:  # what is looked for
        return f"{type(error).__name__}: {str(error)[:200]}"
    seconds = time.monotonic() - began_s
    done["slowest ms"] = max(done["slowest ms"], round(1000 * seconds))
    return f"{seconds:.1f} s" if seconds > HANG_S else None


def forget_peak() -> None:
    """Have the peak of this process's memory begin anew, so that what made a file does not count for its import."""
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")


def peak_mib() -> float:
    """Return the peak of memory since `forget_peak`; since the start where the system is not Linux."""
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("models", nargs="*", type=Path)
    options = parser.parse_args()
    models = [onnx.load(path) for path in options.models] or [make() for make in KINDS.values()]
    num_faults = 0
    for kind in ("onnx", "pipedream", "piper"):
        done: Counter[str] = Counter()
        made_mib = imported_mib = 0.0
        for number in range(options.first, options.first + options.files):
            forget_peak()
            what, content = hostile(number, kind, models)
            made_mib = max(made_mib, peak_mib())
            forget_peak()
            fault = fault_of(content, done, number)
            imported_mib = max(imported_mib, peak_mib())
            if fault is not None:
                num_faults += 1
                print(f"{kind} {number} ({what}): {fault}", flush=True)
        print(f"{kind}: {dict(done)}, peak {made_mib:.0f} MiB making files, {imported_mib:.0f} importing", flush=True)
    sys.exit(num_faults > 0)


if __name__ == "__main__":
    main()
