"""Minimise max-load or the GPipe period by integer programming: chain, convex or free splits.

Every family says which blocks are on which device through its own 0/1 variables; the costs on top are the same.

chain   a[b, j] = 1 if block b is in one of the first j stages: a[b, j] <= a[b, j+1], and a[u, j] >= a[v, j] for an
        edge u -> v. Block b is in stage j where a steps up. Stages have an order, so there is no symmetry between
        accelerators. With CPUs a stage is either kind: y[j] = 1 makes stage j a CPU. With several kinds of accelerators
        y[j, g] = 1 makes it one of kind g, of which there are as many as devices; the part of block b that is in stage
        j on kind g is at most y[j, g], and the parts sum to what is in the stage.
convex  x[b, d] = 1 if block b is on device d, and per device z[v] >= x[v], z[v] <= z[u], z[v] <= x[v] - x[u] + 1 for
        each forward edge u -> v: z marks what can still come before a node of the device, so no path leaves it and
        returns (Tarnawski et al., NeurIPS 2020, lemma 4.1; z may be continuous).
free    x[b, d] alone.

For convex and free splits the devices of a kind are numbered by their first block in order of work: the i-th heaviest
block is on one of the devices 0 .. i of whatever kind it is on.

    minimise T   subject to   T >= sum_b p_b x[b, d] + sum_e w_e cut[e, d]    for each accelerator d
                              T >= sum_b q_b x[b, d]                          for each CPU d
                              sum_b m_b x[b, d] <= M                          for each accelerator d
    where cut[e, d] >= x[b, d] - x[b', d] for the ends of hyperedge e.

`solvers.milp.load_rows` has the rows of T, also for GPipe and for transfers that overlap.

Under a training schedule what a stage holds depends on the stages after it: stage j of J has J - 1 - j after it, and
its row counts each block with the bytes it takes there. This is exact though stages may be empty. No plan is lost: its
p stages are also the last p of J, with all empty ones before them, and then each has as many after it as it counts. And
none is wrong: an empty stage after it only makes a stage count more bytes than it takes.

All times are divided by a scale near the optimum and memory by M.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pulp

from solvers.milp.load_rows import Columns, Expression, add_gpipe_objective, add_max_load_objective
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, TrainingMemory
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled, training_bytes
from solvers.model.split import Family, Split, memory_order
from solvers.problem.accelerator_kinds import AcceleratorKind, accelerator_kinds
from solvers.problem.contraction import Contraction


@dataclass
class ThroughputModel:
    """The integer program of one graph: run it, then read a split from its variables.

    `problem` minimises `value_ms / scale_ms`. `accelerator` and `cpu` hold a column per stage or device: how much of
    each block is on it, and `column_kind` of which kind each accelerator column is, `column_stage` of which stage or
    device. In a chain `prefix` says which blocks are in the first stages and `cpu_stage` which stages are on CPUs, or
    `stage_kind`, with several kinds of accelerators, of which kind they are, CPUs last. `fixed` is the device of blocks
    that are pinned.
    """

    problem: pulp.LpProblem
    scale_ms: float
    family: Family
    contraction: Contraction
    deployment: Deployment
    kinds: tuple[AcceleratorKind, ...] = ()
    column_kind: list[AcceleratorKind] = field(default_factory=list)
    column_stage: list[int] = field(default_factory=list)
    accelerator: list[list[Expression]] = field(default_factory=list)
    cpu: list[list[Expression]] = field(default_factory=list)
    prefix: list[list[Expression]] = field(default_factory=list)
    cpu_stage: list[Expression] = field(default_factory=list)
    stage_kind: list[list[Expression]] = field(default_factory=list)
    fixed: Mapping[int, int] = field(default_factory=dict)

    def start_values(self, graph: DnnGraph, split: Split) -> dict[pulp.LpVariable, float]:
        """Return values of the integer variables that describe a valid split of the model's family."""
        device_of = split.device_of()
        blocks = range(self.contraction.num_blocks)
        device = [device_of[self.contraction.members[b][0]] for b in blocks]
        if self.family is Family.CHAIN:
            return self._chain_start(graph, split, device)
        device = self._numbered_by_first_block(device)
        columns = self.accelerator + self.cpu
        return {
            columns[d][b]: float(device[b] == d)
            for d in range(self.deployment.num_devices)
            for b in blocks
            if isinstance(columns[d][b], pulp.LpVariable)
        }

    def read_split(self, value: Any) -> Split:
        """Return the split described by `value(variable)`."""

        def is_set(expression: Expression) -> bool:
            if isinstance(expression, pulp.LpVariable):
                return bool(value(expression) > 0.5)
            return bool(expression > 0.5)

        device_of_block: dict[int, int] = {}
        if self.family is not Family.CHAIN:
            # A variable of a pinned block that costs nothing is in no row, and the solver may say nothing of it.
            device_of_block.update(self.fixed)
            for d, column in enumerate(self.accelerator + self.cpu):
                device_of_block.update({b: d for b, x in enumerate(column) if is_set(x)})
        else:
            pinned = set(self.fixed.values())
            left = [iter([d for d in devices if d not in pinned]) for devices in self._devices_by_kind()]
            for j in range(self.deployment.num_devices):
                if self.stage_kind:
                    g = next(g for g, y in enumerate(self.stage_kind[j]) if is_set(y))
                else:
                    g = -1 if not self.kinds or (self.cpu_stage and is_set(self.cpu_stage[j])) else 0
                members = [b for b, a in enumerate(self.prefix) if is_set(a[j + 1]) and not is_set(a[j])]
                pins = [self.fixed[b] for b in members if b in self.fixed]
                if members:
                    device_of_block.update(dict.fromkeys(members, pins[0] if pins else next(left[g])))
        return Split.from_device_of(self.contraction.device_of(device_of_block), self.deployment)

    def _devices_by_kind(self) -> list[list[int]]:
        """Return the device numbers of each kind of accelerators, and of the CPUs last."""
        k = self.deployment.num_accelerators
        return [*(list(kind.devices) for kind in self.kinds), list(range(k, self.deployment.num_devices))]

    def _chain_start(self, graph: DnnGraph, split: Split, device: list[int]) -> dict[pulp.LpVariable, float]:
        used = memory_order(graph, split, self.deployment)
        assert used, "a pipeline model starts from a pipeline split"
        # Empty stages come first, as a schedule's memory asks.
        order = [*(d for d in range(self.deployment.num_devices) if d not in used), *used]
        stage = {d: j for j, d in enumerate(order)}
        values = {
            a[j]: float(stage[device[b]] < j)
            for b, a in enumerate(self.prefix)
            for j in range(len(order))
            if isinstance(a[j], pulp.LpVariable)
        }
        for j, y in enumerate(self.cpu_stage):
            values[y] = float(self.deployment.is_cpu(order[j]))
        for j, choices in enumerate(self.stage_kind):
            for y, devices in zip(choices, self._devices_by_kind(), strict=True):
                values[y] = float(order[j] in devices)
        return values

    def _numbered_by_first_block(self, device: list[int]) -> list[int]:
        """Renumber devices of each kind in the order that breaks the model's symmetry."""
        pinned = set(self.fixed.values())
        number = {d: d for d in pinned}
        of_kind = self._devices_by_kind()
        kind_of = {d: g for g, devices in enumerate(of_kind) for d in devices}
        left = [iter([d for d in devices if d not in pinned]) for devices in of_kind]
        for b in _by_work(self.contraction):
            if device[b] not in number:
                number[device[b]] = next(left[kind_of[device[b]]])
        return [number[d] for d in device]


def throughput_model(
    graph: DnnGraph,
    deployment: Deployment,
    contraction: Contraction,
    family: Family,
    objective: Objective,
    *,
    scale_ms: float,
    lower_bound_ms: float,
    value_ms: float | None = None,
    device_of_block: Mapping[int, int] | None = None,
) -> ThroughputModel:
    """Return the program of the module's formulation.

    `scale_ms` is a value near the optimum, `lower_bound_ms` a proven bound on it, `value_ms` the value of a known
    plan: times and transfers above twice that, and sizes above twice the memory, are written as that, which rules out
    the same splits and keeps the numbers in HiGHS's range. For the GPipe objective the
    contraction must keep passes apart. `device_of_block` is where blocks are pinned: for a chain only that they are on
    stages of their own, of the kind of their devices.
    """
    scale_ms = scale_ms if scale_ms > 0 else 1.0
    most_ms = math.inf if value_ms is None else 2 * value_ms
    kinds = accelerator_kinds(graph, deployment)
    contraction = _capped(contraction, most_ms, max((kind.link_speed for kind in kinds), default=1.0))
    problem = pulp.LpProblem("placement", pulp.LpMinimize)
    model = ThroughputModel(problem, scale_ms, family, contraction, deployment, kinds, fixed=device_of_block or {})
    if family is Family.CHAIN:
        _add_stages(model)
    else:
        _add_devices(model)
        if family is Family.CONVEX:
            add_convexity(model, graph)
    if deployment.training_memory is not None and is_scheduled(graph, deployment):
        _add_scheduled_memory(model, graph, deployment.training_memory)
    else:
        add_memory(model)
    columns = Columns(
        problem, contraction, model.accelerator, model.cpu, deployment.communication, scale_ms, model.column_kind
    )
    if objective is Objective.GPIPE:
        add_gpipe_objective(columns, graph, lower_bound_ms, most_ms)
    else:
        add_max_load_objective(columns, lower_bound_ms)
    return model


def _capped(contraction: Contraction, most_ms: float, link_speed: float) -> Contraction:
    """Return the contraction with no time above `most_ms`, nor any transfer's at this link speed.

    A block that runs on CPUs only stays so.
    """
    cpu_only = np.isinf(contraction.accelerator_ms)
    return replace(
        contraction,
        accelerator_ms=np.where(cpu_only, np.inf, np.minimum(contraction.accelerator_ms, most_ms)),
        class_ms=np.where(np.isinf(contraction.class_ms), np.inf, np.minimum(contraction.class_ms, most_ms)),
        cpu_ms=np.minimum(contraction.cpu_ms, most_ms),
        hyperedges=tuple(replace(h, weight_ms=min(h.weight_ms, most_ms * link_speed)) for h in contraction.hyperedges),
    )


def estimated_rows(graph: DnnGraph, contraction: Contraction, deployment: Deployment, family: Family) -> int:
    """Return about how many rows the program will have, to tell in advance whether building it can pay."""
    n, columns = contraction.num_blocks, deployment.num_devices
    ends = sum(len(h.blocks) for h in contraction.hyperedges)
    per_column = 2 * ends
    if family is Family.CHAIN:
        kinds = max(1, len(deployment.classes)) + (deployment.num_cpus > 0)
        columns *= kinds
        per_column += n + len(contraction.edges) + (3 * n if kinds > 1 else 0)
    elif family is Family.CONVEX:
        edges = _forward_edges(graph)  # of nodes, however few blocks they are in
        per_column += len({v for edge in edges for v in edge}) + 2 * len(edges)
    return columns * per_column


def _by_work(contraction: Contraction) -> list[int]:
    """Blocks, those with the most work first."""
    work = np.where(np.isfinite(contraction.accelerator_ms), contraction.accelerator_ms, contraction.cpu_ms)
    return [int(b) for b in np.argsort(-work, kind="stable")]


def _binary(problem: pulp.LpProblem, name: str) -> pulp.LpVariable:
    return problem.add_variable(name, 0, 1, cat=pulp.LpBinary)


def _add_stages(model: ThroughputModel) -> None:
    """Prefix variables of a chain, and from them a column per stage and kind of device."""
    problem, contraction, deployment = model.problem, model.contraction, model.deployment
    blocks, stages = range(contraction.num_blocks), range(deployment.num_devices)
    last = deployment.num_devices
    for b in blocks:
        inner = [_binary(problem, f"a_{b}_{j}") for j in range(1, last)]
        model.prefix.append([0, *inner, 1])
    a = model.prefix
    for j in range(1, last):
        for b in blocks:
            # A block in the first j stages is in the first j + 1 stages.
            if j + 1 < last:
                problem += a[b][j] <= a[b][j + 1], f"prefix_{b}_{j}"
        for u, v in contraction.edges:
            # Data flows forwards.
            problem += a[u][j] >= a[v][j], f"order_{u}_{v}_{j}"
    stage = [[a[b][j + 1] - a[b][j] for b in blocks] for j in stages]
    if len(model.fixed) > 1 and last > 1:
        for j in stages:
            # Blocks that are pinned to different devices are on different stages.
            problem += pulp.lpSum(stage[j][b] for b in model.fixed) <= 1, f"pinned_apart_{j}"
    cpu_only = np.isinf(contraction.accelerator_ms)
    if len(model.kinds) > 1:
        _add_stage_kinds(model, stage)
        return
    if not model.kinds:
        model.cpu = stage
        return
    model.column_kind = [kind for kind in model.kinds for _ in stages]
    model.column_stage = list(stages)
    if not deployment.num_cpus:
        model.accelerator = stage
        return
    model.cpu_stage = [_binary(problem, f"y_{j}") for j in stages]
    problem += pulp.lpSum(model.cpu_stage) == deployment.num_cpus, "number_of_cpus"
    for j in stages:
        on_cpu = [problem.add_variable(f"c_{b}_{j}", 0, 1) for b in blocks]
        for b in blocks:
            # A block of a stage is on the stage's kind of device.
            problem += on_cpu[b] <= stage[j][b], f"cpu_part_{b}_{j}"
            problem += on_cpu[b] <= model.cpu_stage[j], f"cpu_kind_{b}_{j}"
            problem += stage[j][b] - on_cpu[b] <= 1 - model.cpu_stage[j], f"accelerator_kind_{b}_{j}"
            if cpu_only[b]:
                problem += on_cpu[b] == stage[j][b], f"cpu_only_{b}_{j}"
        model.cpu.append(on_cpu)
        model.accelerator.append([stage[j][b] - on_cpu[b] for b in blocks])
    for b, d in model.fixed.items():
        for j in stages:
            # A pinned block is on a stage of its device's kind.
            problem += model.cpu[j][b] == (stage[j][b] if deployment.is_cpu(d) else 0), f"pinned_kind_{b}_{j}"


def _add_stage_kinds(model: ThroughputModel, stage: list[list[Expression]]) -> None:
    """A column per stage and kind of accelerators, and per stage for CPUs: of these one holds the stage's blocks."""
    problem, contraction, deployment = model.problem, model.contraction, model.deployment
    blocks, stages = range(contraction.num_blocks), range(deployment.num_devices)
    cpu_only = np.isinf(contraction.accelerator_ms)
    devices = [*(kind.devices for kind in model.kinds), range(deployment.num_accelerators, deployment.num_devices)]
    columns: list[list[list[Expression]]] = []
    for j in stages:
        model.stage_kind.append([_binary(problem, f"y_{j}_{g}") for g in range(len(devices))])
        # A stage is on a device of one kind.
        problem += pulp.lpSum(model.stage_kind[j]) == 1, f"one_kind_{j}"
        columns.append([])
        for g, y in enumerate(model.stage_kind[j]):
            is_cpu = g == len(model.kinds)
            part = [problem.add_variable(f"c_{b}_{j}_{g}", 0, 1) if is_cpu or not cpu_only[b] else 0 for b in blocks]
            for b in blocks:
                # A block of a stage is on the stage's kind of device, and where it is pinned.
                is_elsewhere = b in model.fixed and model.fixed[b] not in devices[g]
                problem += part[b] <= (0 if is_elsewhere else y), f"kind_{b}_{j}_{g}"
            columns[j].append(part)
            if is_cpu:
                model.cpu.append(part)
            else:
                model.accelerator.append(part)
                model.column_kind.append(model.kinds[g])
                model.column_stage.append(j)
        for b in blocks:
            problem += pulp.lpSum(part[b] for part in columns[j]) == stage[j][b], f"parts_{b}_{j}"
    for g in range(len(devices)):
        problem += pulp.lpSum(model.stage_kind[j][g] for j in stages) == len(devices[g]), f"number_of_kind_{g}"


def _add_devices(model: ThroughputModel) -> None:
    """One 0/1 variable per block and device; the devices of a kind are numbered by their first block.

    Devices with pinned blocks differ from all others: these blocks are there, and only the rest are alike.
    """
    problem, contraction, deployment = model.problem, model.contraction, model.deployment
    rank = {b: r for r, b in enumerate(b for b in _by_work(contraction) if b not in model.fixed)}
    cpu_only = np.isinf(contraction.accelerator_ms)
    pinned = set(model.fixed.values())

    def entry(b: int, d: int, alike: Sequence[int]) -> Expression:
        if b in model.fixed:
            return problem.add_variable(f"x_{b}_{d}", 1, 1) if model.fixed[b] == d else 0
        place = 0 if d in pinned else sum(other < d and other not in pinned for other in alike)
        is_never = place > rank[b] or (cpu_only[b] and not deployment.is_cpu(d))
        return 0 if is_never else _binary(problem, f"x_{b}_{d}")

    def column(d: int, alike: Sequence[int]) -> list[Expression]:
        return [entry(b, d, alike) for b in range(contraction.num_blocks)]

    kind_of = {d: kind for kind in model.kinds for d in kind.devices}
    cpus = range(deployment.num_accelerators, deployment.num_devices)
    model.column_kind = [kind_of[d] for d in range(deployment.num_accelerators)]
    model.column_stage = list(range(deployment.num_accelerators))
    model.accelerator = [column(d, kind.devices) for d, kind in enumerate(model.column_kind)]
    model.cpu = [column(d, cpus) for d in cpus]
    for b in rank:
        model.problem += pulp.lpSum(x[b] for x in model.accelerator + model.cpu) == 1, f"somewhere_{b}"


def add_convexity(model: ThroughputModel, graph: DnnGraph) -> None:
    """No forward path leaves a device and comes back."""
    block_of = {v: b for b, members in enumerate(model.contraction.members) for v in members}
    edges = _forward_edges(graph)
    ends = sorted({v for edge in edges for v in edge})
    for d, x in enumerate(model.accelerator + model.cpu):
        z = {v: model.problem.add_variable(f"z_{v}_{d}".replace("-", "n"), 0, 1) for v in ends}
        for v in ends:
            model.problem += z[v] >= x[block_of[v]], f"before_{v}_{d}"
        for u, v in edges:
            model.problem += z[v] <= z[u], f"before_before_{u}_{v}_{d}"
            if block_of[u] != block_of[v]:
                model.problem += z[v] <= x[block_of[v]] - x[block_of[u]] + 1, f"no_return_{u}_{v}_{d}"


def _forward_edges(graph: DnnGraph) -> list[tuple[int, int]]:
    """Return the edges between forward nodes, each once."""
    backward = {node.id for node in graph.nodes if node.is_backward}
    edges = ((e.source, e.target) for e in graph.edges if e.source not in backward and e.target not in backward)
    return list(dict.fromkeys(edges))


def add_memory(model: ThroughputModel) -> None:
    """The nodes on an accelerator fit in its memory."""
    for d, x in enumerate(model.accelerator):
        _require_fit(model, x, model.contraction.memory_bytes, d)


def _add_scheduled_memory(model: ThroughputModel, graph: DnnGraph, memory: TrainingMemory) -> None:
    """The nodes of a stage fit in its accelerator's memory with what the stages after it make it keep."""
    of_block = [training_bytes(graph, memory, ids) for ids in model.contraction.members]
    for d, (x, j) in enumerate(zip(model.accelerator, model.column_stage, strict=True)):
        stages_after = model.deployment.num_devices - 1 - j
        _require_fit(model, x, np.array([held.on_stage(memory, stages_after) for held in of_block]), d)


def _require_fit(model: ThroughputModel, x: list[Expression], size_bytes: np.ndarray, d: int) -> None:
    """The blocks of a column fit; a size above twice the memory is written as that."""
    memory = model.column_kind[d].memory_bytes
    if memory is None:
        return
    if memory > 0:
        size = np.minimum(size_bytes, 2.0 * memory) / memory
        model.problem += pulp.lpSum(size[b] * x[b] for b in range(len(x)) if size[b] > 0) <= 1, f"memory_{d}"
    else:
        model.problem += pulp.lpSum(x[b] for b in range(len(x)) if size_bytes[b] > 0) <= 0, f"memory_{d}"
