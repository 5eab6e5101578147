"""The general graph partitioner Scotch (Pellegrini), as the paper uses it: k parts of equal weight, light cuts.

Vertices are colocation classes with their accelerator time; the weight between two classes is the time to move the
tensors that one writes and the other reads. Scotch knows nothing of memory, CPUs, or the largest load: it minimises the
total cut among balanced parts. Classes that run on CPUs only stay on the first CPU.

Scotch reads whole numbers and adds them up in 32 bits: weights are scaled so that their sum is at most `MAX_TOTAL`, by
a power of ten up to 10^6, and at least 1 between classes that talk to each other. The program is Debian's
`scotch_gpart`; others install it as `gpart`. Other versions give other plans.

Where accelerators are of several types the parts are not equal: each gets the share of the weight that its accelerator
computes in the same time. Scotch's mapper, `scotch_gmap`, takes such shares as a complete graph with weights; a vertex
has the time on the fastest type for it.
"""

import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.problem.contraction import Contraction, contract
from solvers.problem.solving import MethodError, Problem, Reporter

PROGRAMS = ("scotch_gpart", "gpart")
MAX_TOTAL = 2**30
LARGEST_SCALE = 1e6
LARGEST_SHARE = 1000
"""Weight of the fastest accelerator among parts that are not equal."""
POLL_SECONDS = 0.1


def scotch_program() -> str | None:
    """Return the path of Scotch's partitioner; None where it is not installed."""
    return next((path for path in map(shutil.which, PROGRAMS) if path is not None), None)


def scotch_split(problem: Problem, reporter: Reporter) -> Split | None:
    """Return Scotch's plan, None if the time limit came first; MethodError where Scotch is missing or refuses."""
    program = scotch_program()
    if program is None:
        raise MethodError(
            "Method scotch needs the program scotch_gpart, which is not installed; "
            "install it (on Debian or Ubuntu: apt install scotch) or choose another method."
        )
    graph, deployment = problem.graph, problem.deployment
    k = deployment.num_accelerators
    blocks = contract(graph, Family.FREE, deployment, join_idle=False)
    movable = [b for b in range(blocks.num_blocks) if np.isfinite(blocks.accelerator_ms[b])]
    home = k if deployment.num_cpus else 0
    device_of_block = dict.fromkeys(range(blocks.num_blocks), home)
    if k > 1 and len(movable) > 1:
        answer = _run(_command(program, deployment, blocks, movable), graph_text(graph, blocks, movable), reporter)
        if answer is None:
            return None
        device_of_block.update(_read_parts(answer, movable, k))
    else:
        device_of_block.update(dict.fromkeys(movable, 0))
    return Split.from_device_of(blocks.device_of(device_of_block), deployment)


def graph_text(graph: DnnGraph, blocks: Contraction, movable: list[int]) -> str:
    """Return the graph of classes in Scotch's format: vertex i is block `movable[i]`."""
    block_of = {v: b for b, members in enumerate(blocks.members) for v in members}
    number = {b: i for i, b in enumerate(movable)}
    between: dict[tuple[int, int], float] = {}
    for tensor in graph.tensors:
        a = block_of[tensor.source]
        for b in {block_of[v] for v in tensor.readers} - {a}:
            if a in number and b in number and tensor.transfer_ms > 0:
                ends = (min(number[a], number[b]), max(number[a], number[b]))
                between[ends] = between.get(ends, 0.0) + tensor.transfer_ms
    times = [float(blocks.accelerator_ms[b]) for b in movable]
    # Every edge is listed at both of its ends.
    total_ms = max(sum(times), 2 * sum(between.values()))
    scale = min(LARGEST_SCALE, 10.0 ** math.floor(math.log10(MAX_TOTAL / total_ms))) if total_ms > 0 else 1.0
    neighbours: list[list[tuple[int, int]]] = [[] for _ in movable]
    for (a, b), weight_ms in sorted(between.items()):
        weight = max(1, round(weight_ms * scale))
        neighbours[a].append((weight, b))
        neighbours[b].append((weight, a))
    # Header: format 0; vertices and arcs; numbered from 0, with weights (flags 011: edges and vertices).
    lines = ["0", f"{len(movable)} {2 * len(between)}", "0 011"]
    for time_ms, row in zip(times, neighbours, strict=True):
        arcs = "".join(f" {weight} {b}" for weight, b in row)
        lines.append(f"{round(time_ms * scale)} {len(row)}{arcs}")
    return "\n".join(lines) + "\n"


def shares(deployment: Deployment, blocks: Contraction, movable: list[int]) -> list[int]:
    """Return the weight of each accelerator's part: how quick it is on all these blocks, in whole numbers."""
    total_ms = [
        float(blocks.class_ms[i, movable].sum()) for i, c in enumerate(deployment.classes) for _ in range(c.count)
    ]
    least = min(total_ms, default=0.0)
    return [max(1, round(LARGEST_SHARE * least / ms)) if ms > 0 else LARGEST_SHARE for ms in total_ms]


def _command(program: str, deployment: Deployment, blocks: Contraction, movable: list[int]) -> tuple[list[str], str]:
    """Return the program to run with its options, and the text of the target it is to read, if any."""
    if not deployment.classes:
        return [program, str(deployment.num_accelerators)], ""
    mapper = shutil.which(os.path.basename(program).replace("gpart", "gmap"))
    if mapper is None:
        raise MethodError("Method scotch needs the program scotch_gmap for several types; install all of Scotch.")
    weights = shares(deployment, blocks, movable)
    return [mapper, "-"], f"cmpltw {len(weights)} {' '.join(map(str, weights))}\n"


def _run(command: tuple[list[str], str], text: str, reporter: Reporter) -> str | None:
    """Return what Scotch prints; None if the time limit came first."""
    words, target = command
    with tempfile.TemporaryDirectory() as folder:
        if target:
            path = Path(folder, "target.tgt")
            path.write_text(target, encoding="ascii")
            words = [*words, str(path)]
        return _answer(words, text, reporter)


def _answer(command: list[str], text: str, reporter: Reporter) -> str | None:
    """Return what a program prints for a text; None if the time limit came first."""
    process = subprocess.Popen(  # noqa: S603 -- found by name on the user's path, no shell
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SCOTCH_PTHREAD_NUMBER": "1"},  # the same plan every time
    )
    unsent: str | None = text
    try:
        while True:
            try:
                output, complaint = process.communicate(unsent, timeout=POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                unsent = None
                reporter.report("scotch")
                if reporter.seconds_left == 0:
                    return None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode != 0:
        reason = " ".join(complaint.split())[:200] or f"exit code {process.returncode}"
        raise MethodError(f"Scotch did not partition this graph: {reason}.")
    return output


def _read_parts(answer: str, movable: list[int], num_parts: int) -> dict[int, int]:
    """Return the part of each block from the lines 'vertex part' that follow their number."""
    try:
        count, *numbers = map(int, answer.split())
        part_of = dict(zip(numbers[::2], numbers[1::2], strict=True))
    except ValueError:
        raise MethodError("Scotch's answer is not a mapping; is scotch_gpart the program of Scotch?") from None
    if (
        count != len(movable)
        or part_of.keys() != set(range(count))
        or not set(part_of.values()) <= set(range(num_parts))
    ):
        raise MethodError("Scotch's answer does not place every class; is scotch_gpart the program of Scotch?")
    return {b: part_of[i] for i, b in enumerate(movable)}
