"""Where a plan puts whole layers: the stage of the front, of every block and of the back, or the reason it cannot."""

from collections import Counter
from dataclasses import dataclass

from solvers.exporters.layers import LayerStack, layer_stack
from solvers.exporters.plan import ExportError, Plan, Stage


@dataclass(frozen=True, slots=True)
class LayerStages:
    """The stages of a pipeline and, by their place in it, those of the front, of each block and of the back."""

    stack: LayerStack
    stages: tuple[Stage, ...]
    front: int
    blocks: tuple[int, ...]
    back: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks in each stage."""
        counted = Counter(self.blocks)
        return tuple(counted[s] for s in range(len(self.stages)))

    def first_block(self, stage: int) -> int:
        """How many blocks come before a stage."""
        return sum(self.counts[:stage])


def pipeline_stages(plan: Plan, title: str, flag: str) -> tuple[Stage, ...]:
    """Return the stages of a plan for a framework with pipelines of accelerators; ExportError with the reason.

    `title` names the framework in sentences, `flag` is its name for --expressible-in.
    """
    remedy = f"solve with --expressible-in {flag}"
    require_whole_devices(plan, title, remedy)
    if plan.stages is None:
        raise ExportError(
            f"{title} runs a pipeline, and in this plan data flows in a circle among the devices, which is not "
            f"contiguous; {remedy}."
        )
    for stage in plan.stages:
        if plan.is_cpu(stage.device):
            raise ExportError(
                f"{title} has no stage on a CPU, and this plan uses {plan.device_name(stage.device)}; {remedy}."
            )
    return plan.stages


def require_whole_devices(plan: Plan, title: str, remedy: str) -> None:
    """Raise ExportError for replicas of a single stage, and for devices that run several subgraphs."""
    for d, count in enumerate(plan.placed.replicas):
        if count > 1:
            raise ExportError(
                f"{title} replicates the whole pipeline and no single stage, and this plan has {count} replicas of "
                f"{plan.device_name(d)}; {remedy}."
            )
    if plan.placed.subgraphs:
        raise ExportError(f"{title} runs one part of the network on each device, and here some run several; {remedy}.")


def layer_stages(plan: Plan, title: str, flag: str) -> LayerStages:
    """Return where whole layers are; ExportError names the first layer that is cut."""
    stages = pipeline_stages(plan, title, flag)
    stack = layer_stack(plan.graph)
    place_of = {v: s for s, stage in enumerate(stages) for v in stage.nodes}
    remedy = f"solve with --expressible-in {flag}"

    def place(nodes: frozenset[int], name: str) -> int:
        places = sorted({place_of[v] for v in nodes})
        if len(places) > 1:
            raise ExportError(
                f"{title} places whole layers, and {name} is cut between {_cut(plan, stages, places)}; {remedy}."
            )
        return places[0]

    blocks = tuple(place(nodes, name) for nodes, name in zip(stack.blocks, stack.names[1], strict=True))
    front = place(stack.front, f"the part before the blocks ({', '.join(stack.names[0])})") if stack.front else 0
    back = len(stages) - 1
    if stack.back:
        back = place(stack.back, f"the part after the blocks ({', '.join(stack.names[2])})")
    return LayerStages(stack, stages, front, blocks, back)


def _cut(plan: Plan, stages: tuple[Stage, ...], places: list[int]) -> str:
    if plan.looped is not None:
        return f"stages {' and '.join(str(place + 1) for place in places)}"
    return " and ".join(plan.device_name(stages[place].device) for place in places)


def devices_note(plan: Plan, stages: tuple[Stage, ...], rank: str) -> str:
    """Say which device runs which rank, where their order or make matters; empty where it does not."""
    order = list(dict.fromkeys(stage.device for stage in stages))
    if order == list(range(len(order))) and not plan.deployment.classes and not plan.deployment.has_servers:
        return ""
    names = ", ".join(f"{r} {plan.device_name(d)}" for r, d in enumerate(order))
    return f"The plan is for these devices by {rank}: {names}; start the processes in this order."
