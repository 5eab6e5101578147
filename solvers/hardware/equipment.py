"""A graph and its deployment put on devices of the catalogue: times, memory and transfers that fit these devices.

One kind of accelerator gives a deployment of accelerators that are alike; its times become the graph's own. Several
give a class each: every node then has a time for every class, the graph's own times and transfers are those of the
first, and the link speeds of the others are relative to its link.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.hardware.devices import Accelerator, Catalogue, CatalogueError, HostCpu, Link, Precision
from solvers.hardware.roofline import (
    USUAL,
    Efficiency,
    Retiming,
    Setup,
    host_origin_of,
    host_times_on,
    origin_of,
    times_on,
    with_class_times,
    with_host_times,
    with_times,
)
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, TimesOrigin
from solvers.quantities import bandwidth, listed


@dataclass(frozen=True, slots=True)
class Group:
    """Accelerators of one kind: how many, on which link, in which precision.

    `count` None means as many as there are; `link` None leaves transfers as they are; `precision` None is the one that
    the graph's times are for, where the accelerator has it, and else the accelerator's usual one.
    """

    accelerator: Accelerator
    count: int | None = None
    link: Link | None = None
    precision: Precision | None = None


@dataclass(frozen=True, slots=True)
class Equipment:
    """The devices that are asked for; without groups accelerators stay as they are, without a host CPUs do.

    `times` says what the graph's times are for where its file does not, or does wrongly. With `roofline_only` measured
    times are left aside.
    """

    groups: tuple[Group, ...] = ()
    host: HostCpu | None = None
    efficiency: Efficiency = USUAL
    times: TimesOrigin | None = None
    roofline_only: bool = False


@dataclass(frozen=True, slots=True)
class Equipped:
    """A graph and a deployment with the devices that were asked for, and sentences on where their figures are from.

    `retimings` are the times on each group, in their order; `host` those on the host CPU, if one was asked for.
    `links` say at which speed each class transfers, by its name; `remarks` what else is to be known.
    """

    graph: DnnGraph
    deployment: Deployment
    retimings: tuple[Retiming, ...] = ()
    host: Retiming | None = None
    links: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is to be said, each once."""
        host = () if self.host is None else (self.host.sentence(),)
        links = (sentence for _, sentence in self.links)
        return tuple(dict.fromkeys((*(r.sentence() for r in self.retimings), *links, *self.remarks, *host)))


def equip(graph: DnnGraph, deployment: Deployment, asked: Equipment, devices: Catalogue) -> Equipped:
    """Return the graph and the deployment on the devices asked for.

    Raises CatalogueError, DeploymentError or GraphError, in one sentence, for what cannot be had: a precision without a
    peak, a link for a graph without bytes, times that cannot be scaled since nobody knows what they are for.

    >>> from solvers.hardware.catalogue import catalogue
    >>> from solvers.samples import read_sample
    >>> asked = Equipment((Group(catalogue().accelerator("H100-SXM"), link=catalogue().link("nvlink4")),))
    >>> on = equip(*read_sample("gpt2_xl_layer_inference"), asked, catalogue())
    >>> on.deployment.memory_bytes, on.graph.times.accelerator, on.graph.times.precision
    (80000000000.0, 'H100-SXM', 'fp16')
    """
    known = _known_origin(graph.times, asked.times)
    graph = replace(graph, times=known)
    links: tuple[tuple[str, str], ...] = ()
    remarks: list[str] = []
    retimings: tuple[Retiming, ...] = ()
    host: Retiming | None = None
    retimed, equipped = graph, deployment
    if asked.host is not None:
        setup = Setup(asked.host, asked.host.usual_precision, asked.efficiency)
        origin = host_origin_of(known, devices, asked.efficiency)
        host = host_times_on(graph, setup, origin, roofline_only=asked.roofline_only)
        retimed = with_host_times(retimed, host)
    if asked.groups:
        names = group_names(asked.groups)
        origin = origin_of(known, devices, asked.efficiency)
        retimings = tuple(_retiming(graph, g, n, origin, asked) for g, n in zip(asked.groups, names, strict=True))
        retimed, equipped = _placed(retimed, deployment, asked.groups, names, retimings)
        links = tuple((n, _transfers(g, n, graph, devices)) for g, n in zip(asked.groups, names, strict=True))
        remarks = [_unlisted_link(group, devices) for group in asked.groups] + [_kept_bytes(r) for r in retimings]
    retimed = replace(retimed, times=_origin_after(known, retimings, host))
    return Equipped(retimed, equipped, retimings, host, links, tuple(dict.fromkeys(filter(None, remarks))))


def _known_origin(own: TimesOrigin | None, told: TimesOrigin | None) -> TimesOrigin | None:
    """Return what times are for: what was told, and else what the file says; a word of the user's beats the file's."""
    if told is None or own is None:
        return told or own
    if told.accelerator:
        return replace(told, host=told.host or own.host)
    return replace(own, host=told.host or own.host)


def _origin_after(
    known: TimesOrigin | None, retimings: Sequence[Retiming], host: Retiming | None
) -> TimesOrigin | None:
    after = known
    if retimings:
        setup = retimings[0].setup
        after = TimesOrigin(
            setup.processor.name, str(setup.precision), "" if known is None else known.host, retimings[0].kind
        )
    if host is not None:
        after = replace(after or TimesOrigin(), host=host.setup.processor.name)
    return after


def group_names(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return a name for each group: its accelerator's, with link and number where that alone would not tell it apart.

    >>> from solvers.hardware.catalogue import catalogue
    >>> t4, link = catalogue().accelerator("T4"), catalogue().link("pcie3-x16")
    >>> group_names((Group(t4), Group(t4, link=link), Group(t4, link=link)))
    ('T4', 'T4 pcie3-x16', 'T4 pcie3-x16 b')
    """
    names: list[str] = []
    for group in groups:
        name = group.accelerator.name
        if name in names and group.link is not None:
            name = f"{name} {group.link.name}"
        plain, letter = name, ord("b")
        while name in names:
            name, letter = f"{plain} {chr(letter)}", letter + 1
        names.append(name)
    return tuple(names)


def precision_of(group: Group, times: TimesOrigin | None) -> Precision:
    """Return the precision a group is used in; see `Group`."""
    if group.precision is not None:
        return group.precision
    own = "" if times is None else times.precision
    return next((p for p in group.accelerator.precisions if p == own), group.accelerator.usual_precision)


def _retiming(graph: DnnGraph, group: Group, name: str, origin: Setup | None, asked: Equipment) -> Retiming:
    setup = Setup(group.accelerator, precision_of(group, graph.times), asked.efficiency)
    return times_on(graph, setup, origin, class_name=name, roofline_only=asked.roofline_only)


def _placed(
    graph: DnnGraph,
    deployment: Deployment,
    groups: Sequence[Group],
    names: Sequence[str],
    retimings: Sequence[Retiming],
) -> tuple[DnnGraph, Deployment]:
    """Return graph and deployment with times, memory and links."""
    links = [group.link for group in groups]
    speeds = [1.0] * len(groups)
    if used := [link for link in links if link is not None]:
        own = _own_bandwidth(graph, used[0])
        bandwidths = [own if link is None else link.bandwidth_bytes_per_ms for link in links]
        speeds = [bandwidth / bandwidths[0] for bandwidth in bandwidths]
        if links[0] is not None:
            graph = graph.with_bandwidth(bandwidths[0])
    graph = with_times(graph, retimings[0])
    if len(groups) == 1:
        only = groups[0]
        count = deployment.num_accelerators if only.count is None else only.count
        one = replace(deployment, num_accelerators=count, classes=(), memory_bytes=only.accelerator.memory_bytes)
        return graph, one
    classes = []
    for group, name, retiming, link_speed in zip(groups, names, retimings, speeds, strict=True):
        if group.count is None:
            raise CatalogueError(f"There is no count of {name}; give each of several groups of accelerators one.")
        graph = with_class_times(graph, name, retiming)
        speed = _speed(retimings[0], retiming)
        classes.append(DeviceClass(name, group.count, speed, group.accelerator.memory_bytes, link_speed))
    total = sum(device_class.count for device_class in classes)
    return graph, replace(deployment, num_accelerators=total, memory_bytes=None, classes=tuple(classes))


def _speed(first: Retiming, retiming: Retiming) -> float:
    """Return how fast a class is on the whole, relative to the first: the ratio of the total times."""
    total, own = sum(first.ms.values()), sum(retiming.ms.values())
    return total / own if total > 0 and own > 0 else 1.0


def _own_bandwidth(graph: DnnGraph, link: Link) -> float:
    own = graph.bandwidth_bytes_per_ms
    if own is None:
        raise CatalogueError(
            f"This graph has no consistent bytes on its edges, so {link.name} says nothing of its transfers; leave the "
            "link out, or give a multiple of the file's own speed."
        )
    return own


def link_sentence(link: Link) -> str:
    """Say what transfers take over a link.

    >>> from solvers.hardware.catalogue import catalogue
    >>> link_sentence(catalogue().link("nvlink4"))
    'Transfers over NVLink 4 (H100, H200) at 450 GB/s, its raw speed.'
    >>> link_sentence(catalogue().link("ici-v5e"))
    'Transfers over ICI of TPU v5e at 200 GB/s, its raw speed, of all ports together; to one neighbour it is ici-v5e-1.'
    """
    raw = ", its raw speed" if link.usable_bytes_per_ms is None else ""
    if link.usable_bytes_per_ms not in (None, link.raw_bytes_per_ms):  # equal where somebody wrote the speed
        raw = f" of {bandwidth(link.raw_bytes_per_ms)} raw"
    one = f", of all ports together; to one neighbour it is {link.to_one}" if link.to_one else ""
    return f"Transfers over {link.title} at {bandwidth(link.bandwidth_bytes_per_ms)}{raw}{one}."


def _transfers(group: Group, name: str, graph: DnnGraph, devices: Catalogue) -> str:
    """Say at which speed a group transfers, above all where that is the file's and no link of its own."""
    if group.link is not None:
        return link_sentence(group.link)
    own = graph.bandwidth_bytes_per_ms
    if own is None:
        return (
            f"Transfers of {name} take as long as in the file, which has no consistent bytes for a link to tell more."
        )
    links = _links_of(group.accelerator, devices)
    one = f"one of its own, such as {' or '.join(links)}," if links else "one"
    return f"Transfers of {name} over links as in the file, {bandwidth(own)}; name {one} to change that."


def _links_of(accelerator: Accelerator, devices: Catalogue) -> list[str]:
    known = {link.name for link in devices.links}
    return [name for name in accelerator.links if name in known]


def _unlisted_link(group: Group, devices: Catalogue) -> str:
    """Say that the catalogue does not list a link for an accelerator, but for others; empty where it does.

    Networks are the host's: no accelerator lists them.
    """
    link, accelerator = group.link, group.accelerator
    if link is None or link.name in accelerator.links or not any(link.name in a.links for a in devices.accelerators):
        return ""
    links = _links_of(accelerator, devices)
    only = f"only {listed(links)}" if links else "nor any other"
    return f"The catalogue does not list {link.name} for {accelerator.name}, {only}."


def _kept_bytes(retiming: Retiming) -> str:
    """Say that bytes stay those of the file where the precision has wider or narrower numbers; empty elsewhere."""
    used, own = retiming.setup.precision, None if retiming.origin is None else retiming.origin.precision
    if own is None or own.num_bytes == used.num_bytes:
        return ""
    return (
        f"Only the peak of {retiming.setup.processor.name} is that of {used}: bytes, and with them memory and "
        f"transfers, stay those of the file, in {own}."
    )
