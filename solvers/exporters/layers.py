"""The layers of a network as frameworks know them: what comes before its row of alike blocks, these, and what follows.

Frameworks that cut a transformer into pipeline stages know an embedding, N decoder layers and an output, and place each
of them whole. A graph tells its layers by name (`Node.layer`): those with one name and a running number are the blocks
("block 1" .. "block 32", "model.layers.0" .. "model.layers.31"); of the others, those from which data reaches a block
are the front, and the rest is the back. Backward nodes belong to the layers of their forward ones.
"""

import itertools
import re
from dataclasses import dataclass

from solvers.exporters.plan import ExportError
from solvers.model.graph import DnnGraph
from solvers.model.split import forward_edges


@dataclass(frozen=True, slots=True)
class LayerStack:
    """Node ids of the front, of each block in order, and of the back; front and back may be empty.

    `names` are the layers' names, in the same three parts. `num_prediction_modules` of the back predict further tokens
    (DeepSeek-V3's multi-token prediction).
    """

    front: frozenset[int]
    blocks: tuple[frozenset[int], ...]
    back: frozenset[int]
    names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    num_prediction_modules: int = 0

    @property
    def num_blocks(self) -> int:
        """Number of blocks, which frameworks call the number of layers."""
        return len(self.blocks)


def layer_stack(graph: DnnGraph) -> LayerStack:
    """Return the layers of a graph; ExportError where they are not one row of blocks.

    >>> from solvers.model.graph import Edge, Node
    >>> names = ("embedding", "block 1", "block 2", "output")
    >>> nodes = tuple(Node(v, 1.0, 1.0, layer=name) for v, name in enumerate(names))
    >>> stack = layer_stack(DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(3))))
    >>> sorted(stack.front), [sorted(block) for block in stack.blocks], sorted(stack.back)
    ([0], [[1], [2]], [3])
    """
    members: dict[str, set[int]] = {}
    for node in graph.nodes:
        if node.layer is None:
            raise ExportError(f"{node.label[0].upper()}{node.label[1:]} belongs to no layer; give every node a layer.")
        members.setdefault(node.layer, set()).add(node.id)
    rows: dict[str, list[tuple[int, str]]] = {}
    for name in members:
        if found := re.fullmatch(r"(.*?)(\d{1,9})", name):
            rows.setdefault(found[1], []).append((int(found[2]), name))
    long = {prefix: sorted(row) for prefix, row in rows.items() if len(row) > 1}
    if len(long) != 1:
        several = ", ".join(f"{prefix.strip(' ._')} 1 to {len(row)}" for prefix, row in list(long.items())[:4])
        what = f"several rows of blocks ({several})" if long else "no row of blocks with running numbers"
        raise ExportError(f"The layers of this graph form {what}; name one row of layers, such as block 1, block 2.")
    (row,) = long.values()
    numbers, blocks = [number for number, _ in row], tuple(name for _, name in row)
    if len(set(numbers)) < len(numbers):
        twins = next((one, other) for (n, one), (m, other) in itertools.pairwise(row) if n == m)
        raise ExportError(f"Layers {' and '.join(twins)} of this graph have one number; give each its own.")
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ExportError(
            f"The blocks of this graph are numbered from {numbers[0]} to {numbers[-1]} with some left out; number "
            "them without gaps."
        )
    block_of = {v: i for i, name in enumerate(blocks) for v in members[name]}
    others = [name for name in members if not members[name] <= block_of.keys()]
    ahead = _reaching(graph, block_of)
    front = [name for name in others if members[name] & ahead]
    back = [name for name in others if name not in front]
    stack = LayerStack(
        frozenset[int]().union(*(members[name] for name in front)),
        tuple(frozenset(members[name]) for name in blocks),
        frozenset[int]().union(*(members[name] for name in back)),
        (tuple(front), blocks, tuple(back)),
        sum("prediction module" in name for name in back),
    )
    _require_row(graph, stack, block_of)
    return stack


def _reaching(graph: DnnGraph, block_of: dict[int, int]) -> set[int]:
    """Return the forward nodes outside the blocks from which data reaches one."""
    inputs: dict[int, list[int]] = {}
    for u, v in forward_edges(graph):
        inputs.setdefault(v, []).append(u)
    found: set[int] = set()
    left = list(block_of)
    while left:
        for u in inputs.get(left.pop(), ()):
            if u not in found and u not in block_of:
                found.add(u)
                left.append(u)
    return found


def _require_row(graph: DnnGraph, stack: LayerStack, block_of: dict[int, int]) -> None:
    """Raise ExportError unless each block reads the block before it, and besides that the front alone."""
    names = stack.names[1]
    steps = {(block_of[u], block_of[v]) for u, v in forward_edges(graph) if u in block_of and v in block_of}
    for i in range(1, stack.num_blocks):
        if (i - 1, i) not in steps:
            raise ExportError(
                f"{names[i]} does not read {names[i - 1]}, and a row of layers passes data from each to the next; such "
                "a graph is no stack of layers."
            )
    for u, v in forward_edges(graph):
        if v in block_of and u in block_of and block_of[v] - block_of[u] not in (0, 1):
            raise ExportError(
                f"{names[block_of[v]]} reads {names[block_of[u]]}, and a row of layers passes data from each to the "
                "next one only; such a graph is no stack of layers."
            )
        if v in stack.front and (u in block_of or u in stack.back):
            raise ExportError(
                f"{graph.node_by_id[v].label} of layer {graph.node_by_id[v].layer} comes before some blocks and "
                "after others; such a graph is no stack of layers."
            )
