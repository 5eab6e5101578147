"""Which layer an operator belongs to, by its name; and layers such that data passes them one way.

Exporters name an operator by the modules it is in: "/model/layers.4/self_attn/MatMul" (torch), or
"encoder/layer_4/attention/MatMul" (TensorFlow); torch's newer exporter keeps the modules beside the name. A layer is
the path up to the first part with a number, or else all of it but the operator's own name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import onnx

from solvers.importers.network import Network

SCOPES = "pkg.torch.onnx.name_scopes"
KIND, PARAMETER = "pkg.torch.export.graph_signature.InputSpec.kind", "PARAMETER"
FOLDED_FROM, MANY = "pkg.onnxscript.optimizer.folded_from", 4
"""Weights that the exporter has turned around come from one value or two; masks and tables from many more."""
NUMBERED = re.compile(r"[._]\d+$", re.ASCII)
MAX_NAME = 120


def layer_name(node: onnx.NodeProto) -> str | None:
    """Return the layer of an operator; None where its name has no modules.

    >>> layer_name(onnx.helper.make_node("MatMul", [], [], name="/model/layers.4/attention/MatMul_1"))
    'model/layers.4'
    >>> layer_name(onnx.helper.make_node("Add", [], [], name="/layer1/layer1.0/Add"))
    'layer1/layer1.0'
    >>> layer_name(onnx.helper.make_node("Conv", [], [], name="Conv_12")) is None
    True
    """
    parts = _scopes(node) or [part for part in node.name.split("/")[:-1] if part]
    for i, part in enumerate(parts):
        if NUMBERED.search(part):
            return printable("/".join(parts[: i + 1]))
    return printable("/".join(parts)) or None


def module_path(node: onnx.NodeProto) -> str:
    """Return the modules that an operator is in, with dots between them; empty where its name has none.

    >>> module_path(onnx.helper.make_node("MatMul", [], [], name="/model/layers.4/attention/MatMul_1"))
    'model.layers.4.attention'
    """
    for names in _noted(node):
        return printable(max(names, key=lambda name: name.count("."), default=""))
    return printable(".".join(part for part in node.name.split("/")[:-1] if part))


def printable(name: str) -> str:
    """Return a name as text of one line, cut where it is long."""
    return "".join(c if c.isprintable() else " " for c in name[:MAX_NAME])


def kinds_of(graph: onnx.GraphProto) -> dict[str, str]:
    """Return what torch's exporter notes of initialisers, by their names: whether each is a parameter, or a buffer.

    What it has computed of many values, none of which is in a module, is a mask or the like and no parameter either.
    """
    kinds: dict[str, str] = {}
    for info in graph.value_info:
        for entry in info.metadata_props:
            if entry.key == KIND:
                kinds[info.name] = entry.value
            elif entry.key == FOLDED_FROM and "." not in entry.value and entry.value.count(",") >= MANY - 1:
                kinds.setdefault(info.name, "")
    return kinds


def _noted(node: onnx.NodeProto) -> Iterator[list[str]]:
    """Yield the modules that torch's exporter notes beside a name: "['', 'model', 'model.layers.4', 'add']"."""
    for entry in node.metadata_props:
        if entry.key == SCOPES and isinstance(entry.value, str) and len(entry.value) < 10_000:
            names = re.findall(r"'([^'\\]*)'", entry.value)
            yield [name for name in names[:-1] if name]


def _scopes(node: onnx.NodeProto) -> list[str]:
    """Return the module with a number that is noted beside a name, or else the innermost one."""
    for modules in _noted(node):
        inner = next((name for name in modules if NUMBERED.search(name)), modules[-1] if modules else "")
        return [inner] if inner else []
    return []


def with_layers_in_order(network: Network, layers: Sequence[str | None]) -> Network:
    """Return the network with a layer for every operator, such that between layers data passes one way.

    An operator without a layer is one of its own. A layer that data leaves and enters again becomes several: an
    operator joins the latest part of its layer unless that part is among what it depends on by way of another.

    Every part has the parts it depends on as a set of bits, closed under dependence, so joining makes a circle just
    where the part is in the set that it would get.
    """
    part_of: list[int] = []
    before: list[int] = []  # of each part, the parts it depends on, as bits
    names: list[str] = []
    latest: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for v, op in enumerate(network.ops):
        layer = layers[v]
        inputs = {part_of[u] for u in op.inputs}
        part = latest.get(layer) if layer is not None else None
        needed = 0
        for other in inputs - {part}:
            needed |= before[other] | 1 << other
        if part is None or needed >> part & 1:
            part = len(before)
            before.append(0)
            name = layer if layer is not None else op.name
            numbers[name] = numbers.get(name, 0) + 1
            names.append(name if numbers[name] == 1 else f"{name} ({numbers[name]})")
            needed = 0
            for other in inputs:
                needed |= before[other] | 1 << other
            if layer is not None:
                latest[layer] = part
        if needed & ~before[part]:
            before[part] |= needed
            for other in range(part + 1, len(before)):
                if before[other] >> part & 1:
                    before[other] |= needed
            for other in range(part):
                if before[other] >> part & 1:
                    before[other] |= needed
        part_of.append(part)
    ops = tuple(replace(op, layer=names[part_of[v]]) for v, op in enumerate(network.ops))
    return replace(network, ops=ops)
