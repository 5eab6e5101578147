"""What `stage_kernel` works on: the problem, what follows from the limits, and the stage that it grows."""

from typing import NamedTuple

import numpy as np

from solvers.chain.descendants import Descendants
from solvers.problem.contraction import FloatArray, IntArray


class StageProblem(NamedTuple):
    """A contraction and what its stages cost, as flat arrays; compressed rows `*_ptr`, `*_idx` as in sparse matrices.

    Measures are the load alone, or forward, backward and both together.
    """

    accelerator_ms: FloatArray  # (kinds, n, measures): infinite for a block that does not run there
    cpu_ms: FloatArray  # (n, measures)
    work: FloatArray  # (n, measures): in any unit; 0 for a block that only CPUs run, which keeps bounds valid
    rate: FloatArray  # (kinds + 1, measures): most work of any block / its time there; the last row is the CPU's
    memory_bytes: FloatArray  # (n, 3)
    memory_factor: FloatArray  # (k+l+1, 3): by number of devices in use before the stage; columns never fall
    memory_limit: FloatArray  # (kinds,): widened by RELATIVE_SLACK
    link_factor: FloatArray  # (kinds,): by what transfer times are multiplied
    sync_factor: FloatArray  # (kinds,): the same for the all-reduce of replicas
    is_pinned: np.ndarray  # int32 (n,): a stage holds at most one block with a 1
    sync_ms: FloatArray  # (n,): twice the weight bytes over the bandwidth
    successor_ptr: IntArray
    successor_idx: IntArray
    num_predecessors: IntArray
    tensor_ptr: IntArray  # tensors of each block
    tensor_idx: IntArray
    role: IntArray  # what the block does with the tensor
    tensor_weight: FloatArray
    tensor_size: IntArray  # blocks that write or read it
    tensor_pass: IntArray
    tensor_writer: IntArray
    descendants: Descendants
    keys: np.ndarray  # uint64 (n, 2): random keys whose exclusive-or names an ideal
    used: IntArray  # (states, kinds + 1): devices in use in each state, CPUs last
    stride: IntArray  # (kinds + 1,): by how much the number of a state rises with a device of each kind; 1 for CPUs
    available: IntArray  # (kinds + 1,): devices there are
    in_use: IntArray  # (states,): devices in use
    num_left: IntArray  # (states,): devices left
    least_transfer: FloatArray  # (states, measures): work that a ms of transfers displaces on them, at least
    rest_memory: FloatArray  # (states,): what the accelerators left over hold
    memory_slack: float
    is_cpu_only: np.ndarray  # bool (n,)
    cpu_only_ms: FloatArray  # (n, measures): CPU time of a block that only CPUs run, 0 for the others
    last_work: FloatArray  # (n,): work in the last measure
    depending_work: FloatArray  # (n,): that of all blocks that depend on each block, itself included
    pays_sync: FloatArray  # (measures,): 1 where replicas exchange gradients, which they do in the backward pass
    max_replicas: int
    communication: int


class StageLimits(NamedTuple):
    """What one run looks for: chains whose stages are within a limit in every measure, and what follows from that."""

    limit: FloatArray  # (measures,): widened by RELATIVE_SLACK
    weight: FloatArray  # of each tensor, capped
    room: FloatArray  # (states, measures): work that the devices left over can do within the limits


class Growth(NamedTuple):
    """A stage that grows block by block; its depth is the number of its blocks, and sums are kept for every depth."""

    # Blocks and tensors, as they are for the stage of now.
    missing: IntArray  # (n,): predecessors of each block that neither the ideal before the stage nor the stage has
    before: IntArray  # (tensors,): ends of each tensor in the ideal that the stage starts from
    taken: IntArray  # (tensors,): ends in the stage
    forward_taken: IntArray  # (tensors,): of these, readers in the forward pass
    place: IntArray  # (tensors,): of the writer
    cell_node: IntArray  # (2n + 1,): candidates, as cells of linked lists
    cell_next: IntArray
    dead: np.ndarray  # uint64 (words,): blocks that the stage cannot take any more
    trail_word: IntArray  # (n + 1,): which words of them changed one after the other, to be undone
    trail_bits: np.ndarray  # uint64 (n + 1,): and by which bits
    # By depth.
    next_cell: IntArray  # (n + 1,): next candidate
    num_cells: IntArray  # (n + 1,): cells in use before this depth
    node: IntArray  # (n + 1,): block taken last
    on_accelerator: FloatArray  # (n + 1, kinds, measures): compute times
    on_a_cpu: FloatArray  # (n + 1, measures)
    num_bytes: FloatArray  # (n + 1, 3)
    sync_ms: FloatArray  # (n + 1,)
    num_pinned: IntArray  # (n + 1,)
    traffic: FloatArray  # (n + 1, passes, NUM_SUMS)
    crossing: FloatArray  # (n + 1, measures): tensors with ends in and outside the ideal that the stage ends in
    rest_work: FloatArray  # (n + 1, measures)
    rest_cpu_only_ms: FloatArray  # (n + 1, measures)
    num_cpu_only: IntArray  # (n + 1,): counted, since what is left of a sum need not be exactly zero
    rest_bytes: FloatArray  # (n + 1, 3)
    key: np.ndarray  # uint64 (n + 1, 2)
    num_trail: IntArray  # (n + 1,): entries of the trail
    dead_work: FloatArray  # (n + 1,)
    # By kind of accelerators.
    is_possible: np.ndarray  # bool (kinds,): whether one of them is left for any chain to the ideal before the stage
    most_replicas: IntArray  # (kinds,)
    fewest_before: IntArray  # (kinds,): devices in use before the stage, at least
    fits: np.ndarray  # bool (kinds,): whether the stage of now may be on this kind
    load: FloatArray  # (kinds, measures): of a stage that ends
    # What a stage may add to a state: the state, and the kind.
    move_from: IntArray
    move_kind: IntArray
    alive: IntArray  # (states,)
