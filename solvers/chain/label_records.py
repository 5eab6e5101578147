"""What one search of `solvers.chain.label_kernel` works on: the problem, the limits, and the tables that it fills."""

from typing import NamedTuple

import numpy as np

from solvers.chain.descendants import Descendants
from solvers.problem.contraction import FloatArray, IntArray


class LabelProblem(NamedTuple):
    """A contraction as flat arrays; compressed rows `*_ptr`, `*_idx` as in sparse matrices."""

    time_ms: FloatArray  # (kinds + 1, n), CPUs last: infinite for a block that does not run there
    cpu_only_ms: FloatArray  # CPU time of a block that only CPUs run, 0 for the others
    memory_bytes: FloatArray
    work: FloatArray  # in any unit; 0 for a block that only CPUs run, which keeps bounds valid
    is_cpu_only: np.ndarray  # int32
    pinned: np.ndarray  # int32: a stage holds at most one block with a 1
    successor_ptr: IntArray
    successor_idx: IntArray
    predecessor_ptr: IntArray
    predecessor_idx: IntArray
    net_ptr: IntArray  # hyperedges of each block
    net_idx: IntArray
    pin_ptr: IntArray  # blocks of each hyperedge
    pin_idx: IntArray
    slot: IntArray  # place of each hyperedge in a border; hyperedges that can cross the same border have different ones
    descendants: Descendants
    work_of_word: FloatArray  # work of each 64 consecutive blocks
    keys: np.ndarray  # uint64 (n, 2): random keys whose exclusive-or names an ideal


class DeviceMixes(NamedTuple):
    """The kinds of devices, CPUs last, and the states: every mix of them that may be in use."""

    link_factor: FloatArray  # (kinds + 1,): by what transfer times are multiplied; 0 for CPUs
    memory_limit: FloatArray  # (kinds + 1,): bytes; infinite for CPUs
    rate: FloatArray  # (kinds,): most work of any block / its time there
    available: IntArray  # (kinds + 1,): devices there are
    stride: IntArray  # (kinds + 1,): by how much the number of a state rises with a device of each kind; 1 for CPUs
    used: IntArray  # (states, kinds + 1): devices in use in each state
    code: np.ndarray  # uint64 (states,): `used` in bit fields with a 0 between them
    guards: np.uint64  # those zeros as ones
    rest_memory: FloatArray  # (states,): what the accelerators left over hold; infinite while a CPU is left
    transfer_work: FloatArray  # (states,): work that a ms of transfers displaces at least; 0 while a CPU is left


class Limits(NamedTuple):
    """What one search looks for: chains of max-load <= `limit`, a threshold widened by RELATIVE_SLACK."""

    limit: float
    floor: float  # loads up to this count as this
    net_weight: FloatArray
    room: FloatArray  # (states,): work that the devices left over can do within the limit
    cpu_slope: FloatArray  # with c CPUs used: by how much a further ms of CPU time adds to that, at most
    gate: IntArray  # (n,): the number of a block that is a gate of `border_bound`, else 0
    held_from: IntArray  # (n,): all ideals of this class and later ones hold the block
    at_border: FloatArray  # (states, classes, steps): `border_bound.Room` for the devices left over
    under_way: FloatArray
    transfer_work: float  # least work that a ms of transfers takes the place of, on any kind
    cpu_rate: float  # most work of any block / its CPU time
    work_slack: float
    cpu_only_slack: float
    memory_slack: float


class Borders(NamedTuple):
    """The ideals of two neighbouring sizes: first index 0 or 1, then the row of the ideal."""

    blocks: np.ndarray  # uint64 (2, capacity, words); words before the first kept one are full and not written
    ready: np.ndarray  # uint64 (2, capacity, words): blocks that may come next
    net_at: np.ndarray  # int32 (2, capacity, slots): the crossing hyperedge in each slot, or -1
    key: np.ndarray  # uint64 (2, capacity, 2)
    work: np.ndarray  # accelerator time outside the ideal
    cpu_only_ms: np.ndarray  # CPU time of the blocks outside that only CPUs run
    num_cpu_only: np.ndarray  # counted, since what is left of a sum need not be exactly zero
    memory: np.ndarray  # bytes outside
    crossing: np.ndarray  # transfer time of the tensors that cross the border
    gate: np.ndarray  # int32: the class of `border_bound`
    number: np.ndarray  # int32: its index among all ideals
    first: np.ndarray  # int32 (2, capacity, kinds + 1): its first label on each kind of device
    place: np.ndarray  # int32: where in `places` it is


class Labels(NamedTuple):
    """Stages under way: first index as in Borders. The labels of an ideal on a kind of device are a linked list."""

    cost: np.ndarray
    value: np.ndarray
    memory: np.ndarray
    state: np.ndarray  # int32: devices used, that of this stage included
    pinned: np.ndarray  # int32: 1 if it holds a pinned block
    passed: np.ndarray  # int32: blocks that are ready up to this index have been left out
    origin: np.ndarray  # int32: the chain that the stage goes on from
    unread: np.ndarray  # uint64 (2, capacity, slot words)
    read: np.ndarray
    next: np.ndarray  # int32


class Found(NamedTuple):
    """All ideals there are, with their last block and the ideal without it. Ideal 0 is empty."""

    parent: np.ndarray
    last_block: np.ndarray


class Chains(NamedTuple):
    """Chains that end in an ideal, with the devices of a state; `origin` is the chain without the last stage."""

    ideal: np.ndarray
    state: np.ndarray
    origin: np.ndarray
    gate: np.ndarray  # int32: the class of the ideal, -1 for the empty chain
