"""Archives of `torch.export` from a few words, in the layouts of PyTorch 2.5 and 2.13, without PyTorch."""

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

from solvers.importers.imported import Imported
from solvers.importers.torch_export.importer import import_archive
from solvers.importers.workload import Workload
from tests.support.importing import usual_devices

FLOAT, LONG, BOOL, HALF = 7, 5, 12, 6

Size = int | tuple[str, int | None]
"""A size, or a formula with its hint."""


class Draft:
    """Collects a program: inputs first, then operators; every method returns the name of its tensor."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.values: dict[str, dict[str, Any]] = {}
        self.inputs: list[dict[str, Any]] = []
        self.signature: list[dict[str, Any]] = []
        self.ranges: dict[str, dict[str, int]] = {}
        self.mutated: list[dict[str, Any]] = []

    def tensor(self, name: str, shape: Sequence[Size], dtype: int = FLOAT, strides: Sequence[int] | None = None) -> str:
        """Say what a tensor is; its elements lie in their order unless strides are given."""
        plain = [size if isinstance(size, int) else size[1] or 1 for size in shape]
        usual = [1] * len(plain)
        for i in reversed(range(len(plain) - 1)):
            usual[i] = usual[i + 1] * plain[i + 1]
        self.values[name] = {
            "dtype": dtype,
            "sizes": [_size(size) for size in shape],
            "strides": [_size(stride) for stride in strides or usual],
            "requires_grad": False,
            "device": {"type": "cpu", "index": None},
            "storage_offset": {"as_int": 0},
            "layout": 7,
        }
        return name

    def _input(self, name: str, kind: str, spec: dict[str, Any]) -> str:
        self.inputs.append({"as_tensor": {"name": name}})
        self.signature.append({kind: spec})
        return name

    def user(self, name: str, *shape: Size, dtype: int = FLOAT) -> str:
        """Add an input."""
        self.tensor(name, shape, dtype)
        return self._input(name, "user_input", {"arg": {"as_tensor": {"name": name}}})

    def parameter(self, name: str, *shape: int, dtype: int = FLOAT) -> str:
        """Add a parameter."""
        self.tensor(name, shape, dtype)
        return self._input(name, "parameter", {"arg": {"name": name}, "parameter_name": name.replace("_", ".")})

    def buffer(self, name: str, *shape: int, dtype: int = FLOAT, is_written: bool = False) -> str:
        """Add a buffer."""
        self.tensor(name, shape, dtype)
        if is_written:
            self.mutated.append({"buffer_mutation": {"arg": {"name": name}, "buffer_name": name}})
        return self._input(name, "buffer", {"arg": {"name": name}, "buffer_name": name, "persistent": True})

    def call(
        self,
        target: str,
        name: str,
        shape: Sequence[Size],
        module: str = "",
        /,
        *,
        dtype: int = FLOAT,
        strides: Sequence[int] | None = None,
        **arguments: Any,
    ) -> str:
        """Add an operator with one output; arguments are names of tensors, lists of these, numbers, or subgraphs."""
        self.tensor(name, shape, dtype, strides)
        namespace = "" if "." in target else "aten."
        self.nodes.append(
            {
                "target": f"torch.ops.{namespace}{target}" + ("" if "higher_order" in target else ".default"),
                "inputs": [{"name": key, "arg": self._argument(value), "kind": 1} for key, value in arguments.items()],
                "outputs": [{"as_tensor": {"name": name}}],
                "metadata": {"nn_module_stack": f"L__self__,,M;L__self___x,{module},torch.nn.Module"},
                "name": name,
            }
        )
        return name

    def further_output(self, name: str, *shape: Size, dtype: int = FLOAT) -> str:
        """Have the last operator write another tensor."""
        self.tensor(name, shape, dtype, None)
        self.nodes[-1]["outputs"].append({"as_tensor": {"name": name}})
        return name

    def _argument(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Draft):
            return {"as_graph": {"name": "inner", "graph": value.graph(value.nodes[-1]["name"])}}
        if isinstance(value, str) and value in self.values:
            return {"as_tensor": {"name": value}}
        if isinstance(value, list) and value and value[0] in self.values:
            return {"as_tensors": [{"name": name} for name in value]}
        kinds = {bool: "as_bool", int: "as_int", float: "as_float", str: "as_string", list: "as_ints"}
        return {"as_none": True} if value is None else {kinds[type(value)]: value}

    def graph(self, *outputs: str) -> dict[str, Any]:
        """Return the graph alone."""
        return {
            "inputs": self.inputs,
            "outputs": [{"as_tensor": {"name": name}} for name in outputs],
            "nodes": self.nodes,
            "tensor_values": self.values,
            "sym_int_values": {},
            "sym_bool_values": {},
        }

    def document(self, *outputs: str) -> dict[str, Any]:
        """Return the whole JSON object; the last operator is the output unless some are named."""
        names = outputs or (self.nodes[-1]["name"],)
        outs = [{"user_output": {"arg": {"as_tensor": {"name": name}}}} for name in names]
        signature = {"input_specs": self.signature, "output_specs": [*self.mutated, *outs]}
        return {
            "graph_module": {"graph": self.graph(*names), "signature": signature, "module_call_graph": []},
            "opset_version": {"aten": 10},
            "range_constraints": self.ranges,
            "schema_version": {"major": 8, "minor": 20},
            "torch_version": "2.13.0",
        }

    def imported(self, *outputs: str, **asked: Any) -> Imported:
        """Import the program for a workload with these choices."""
        return import_document(self.document(*outputs), **asked)


def _size(size: Size) -> dict[str, Any]:
    if isinstance(size, int):
        return {"as_int": size}
    text, hint = size
    return {"as_expr": {"expr_str": text, "hint": None if hint is None else {"as_int": hint}}}


def archive(document: Any, *, is_old: bool = False, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive in the layout of 2.8 and later, or of 2.5 to 2.7."""
    name = "serialized_exported_program.json" if is_old else "model/models/model.json"
    return zipped({name: json.dumps(document).encode(), "model/data/weights/weight_0": b"\x80never read"}, compression)


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip file with these members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, text in members.items():
            file.writestr(zipfile.ZipInfo(name), text, compression)  # of no time, so that it is the same at any
    return content.getvalue()


def import_document(document: Any, **asked: Any) -> Imported:
    """Import a program for a workload with these choices."""
    return import_bytes(archive(document), **asked)


def import_bytes(content: bytes, **asked: Any) -> Imported:
    """Import an archive for a workload with these choices."""
    return import_archive(io.BytesIO(content), Workload(**asked), usual_devices(), "a test", "test")


def two_blocks(tokens: Size = 6, *, width: int = 8) -> Draft:
    """Return a small language model: an embedding tied to the output, and two blocks with a sum around each."""
    net = Draft()
    table = net.parameter("p_embed_weight", 50, width)
    weights = [(net.parameter(f"p_h_{i}_up", 4 * width, width), net.parameter(f"p_h_{i}_down", width, 4 * width))
               for i in range(2)]  # fmt: skip
    ids = net.user("ids", 2, tokens, dtype=LONG)
    x = net.call("embedding", "embedding", (2, tokens, width), "embed", weight=table, indices=ids)
    for i, (up, down) in enumerate(weights):
        y = net.call("linear", f"up_{i}", (2, tokens, 4 * width), f"h.{i}.mlp.up", input=x, weight=up)
        y = net.call("relu", f"relu_{i}", (2, tokens, 4 * width), f"h.{i}.mlp", self=y)
        y = net.call("linear", f"down_{i}", (2, tokens, width), f"h.{i}.mlp.down", input=y, weight=down)
        x = net.call("add", f"add_{i}", (2, tokens, width), "", self=x, other=y)
    net.call("linear", "logits", (2, tokens, 50), "head", input=x, weight=table)
    return net
