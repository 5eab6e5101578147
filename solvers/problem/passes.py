"""What the blocks of a training graph do in each pass: their times, and the tensors they exchange.

In training a transfer belongs to a pass (see `solvers.model.costs`), so an objective that tells the passes apart needs
the writer of every tensor and its readers of each pass; hyperedges, where these are merged, do for all else.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.model.graph import DnnGraph, Node
from solvers.problem.contraction import Contraction, FloatArray


@dataclass(frozen=True, slots=True)
class PassTensor:
    """A tensor read outside its block, or several with the same ends.

    Blocks of other forward and other backward readers are sorted; a block with readers of both kinds is in both.
    """

    writer: int
    is_backward: bool
    forward_readers: tuple[int, ...]
    backward_readers: tuple[int, ...]

    @property
    def blocks(self) -> tuple[int, ...]:
        """All blocks that write or read it, sorted."""
        return tuple(sorted({self.writer, *self.forward_readers, *self.backward_readers}))


def pass_tensors(graph: DnnGraph, contraction: Contraction) -> dict[PassTensor, float]:
    """Return the tensors read outside their block, with their transfer time in ms."""
    block_of = {v: b for b, members in enumerate(contraction.members) for v in members}
    weights: dict[PassTensor, float] = defaultdict(float)
    for tensor in graph.tensors:
        home = block_of[tensor.source]
        readers: dict[bool, set[int]] = {False: set(), True: set()}
        for v in tensor.readers:
            readers[graph.node_by_id[v].is_backward].add(block_of[v])
        forward, backward = (tuple(sorted(readers[is_backward] - {home})) for is_backward in (False, True))
        if (forward or backward) and tensor.transfer_ms > 0:
            is_backward = graph.node_by_id[tensor.source].is_backward
            weights[PassTensor(home, is_backward, forward, backward)] += tensor.transfer_ms
    return dict(weights)


def pass_ms(
    graph: DnnGraph, contraction: Contraction, accelerator_ms: Callable[[Node], float] | None = None
) -> FloatArray:
    """Return the time of each block in the forward and in the backward pass in ms, shape (n, 2).

    `accelerator_ms` tells a node's time on an accelerator; without it the times are those on a CPU. On an accelerator
    both are infinite for a block with a node that runs on CPUs only.
    """
    times = np.zeros((contraction.num_blocks, 2))
    for b, members in enumerate(contraction.members):
        for node in (graph.node_by_id[v] for v in members):
            times[b, int(node.is_backward)] += node.cpu_ms if accelerator_ms is None else accelerator_ms(node)
    if accelerator_ms is not None:
        times[np.isinf(contraction.accelerator_ms)] = np.inf
    return times
