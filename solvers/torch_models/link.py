"""Measure the link between two processes of this machine, by messages of gloo to and fro."""

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing

SMALL, LARGE = 1, 16 * 2**20
"""Numbers of four bytes in the messages whose times give latency and bandwidth."""


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """Latency of an empty message, in ms, and bandwidth of large ones beyond it."""

    latency_ms: float
    bandwidth_bytes_per_ms: float


def measure_link(warm_up: int, repetitions: int) -> LinkTimes:
    """Return latency and bandwidth between two processes: halves of the median time to and fro."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_play, (folder, warm_up, repetitions), nprocs=2)
        small_ms, large_ms = json.loads((Path(folder) / "times").read_text(encoding="utf-8"))
    return LinkTimes(small_ms, 4 * LARGE / max(large_ms - small_ms, 1e-6))


def _play(rank: int, folder: str, warm_up: int, repetitions: int) -> None:
    """Be one of the two processes; the first one writes the times down."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    times = []
    for count in (SMALL, LARGE):
        message = torch.zeros(count)
        taken = []
        for i in range(warm_up + repetitions):
            torch.distributed.barrier()
            start = time.perf_counter_ns()
            for sender in (0, 1):
                if rank == sender:
                    torch.distributed.send(message, 1 - rank)
                else:
                    torch.distributed.recv(message, sender)
            if i >= warm_up:
                taken.append((time.perf_counter_ns() - start) / 2e6)
        times.append(statistics.median(taken))
    if rank == 0:
        (Path(folder) / "times").write_text(json.dumps(times), encoding="utf-8")
    torch.distributed.destroy_process_group()
