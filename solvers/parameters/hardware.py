"""The inputs on hardware: real devices, counts, memory, links and servers."""

from dataclasses import replace
from typing import Any

from solvers.hardware.roofline import USUAL
from solvers.model.deployment import LARGEST_FACTOR, MAX_DEVICES, Deployment
from solvers.parameters.codecs import COUNT, DEVICES, FLAG, NUMBER, PERCENT, SETUP, WORD, Codec, optional
from solvers.parameters.parameter import Asked, AxisTraits, Parameter, Range, Scope, Unit
from solvers.quantities import binary_size, factor

GIB = 2.0**30
BYTES_PER_MS = 1e6
"""Bytes per millisecond in one GB/s."""
LARGEST_MEMORY_GIB = 1e6
LARGEST_LINK = 1e6
"""Largest link speed in GB/s or as a multiple, and one over the smallest; beyond lie typing errors."""
LINK_RANGE = Range(1 / LARGEST_LINK, LARGEST_LINK)
USUAL_SERVER_LINK_SPEED = 8.0
"""What links within a server are at first, against those between servers: NVLink against a fast network, roughly."""
PLAIN_SHARE: Codec[float] = NUMBER
"""Of a share on the command line, which takes it as such."""

ONE_KIND_ONLY = "the devices are of several types, each with specifications of its own"


def _wished(name: str) -> Any:
    def put(asked: Asked, value: Any) -> Asked:
        return replace(asked, wish=replace(asked.wish, **{name: value}))

    return put


def _share(name: str, share: float, label: str, told: str, kernels: str) -> Parameter[float]:
    return Parameter(
        name=name,
        scope=Scope.REAL_DEVICES,
        address=name,
        flag="--" + name.replace("_", "-"),
        metavar="E",
        codec=PERCENT,
        flag_codec=PLAIN_SHARE,
        unit=Unit.PERCENT,
        label=label,
        help=f"Share of {told} that kernels reach, an assumption: {kernels}.",
        get=lambda asked: getattr(asked.wish, name),
        put=_wished(name),
        usual=lambda _: share,
        limits=Range(0, 1, (0,)),
    )


DEVICE_LIST = Parameter[str](
    name="devices",
    scope=Scope.REAL_DEVICES,
    address="devices",
    flag="--devices",
    metavar="LIST",
    codec=DEVICES,
    label="Devices",
    help="Accelerators of the catalogue, of one type such as H100-SXM:link=nvlink4 or of several such as "
    "2xA100-80:link=nvlink3+4xT4:link=pcie3-x16; or, on the command line and in sweeps, relative to the file's times, "
    "such as 2xbig:memory=80GiB+4xsmall:speed=0.25,memory=16GiB,link=0.5.",
    get=lambda asked: asked.wish.devices,
    put=_wished("devices"),
    usual=lambda _: "",
    axis=AxisTraits("devices", "Devices", "devices", usual="A100-80; H100-SXM; H200; L40S", is_monotone=False),
)
HOST = Parameter[str](
    name="host",
    scope=Scope.REAL_DEVICES,
    address="host",
    flag="--host",
    metavar="NAME",
    codec=WORD,
    label="CPUs",
    help="Host CPUs of the catalogue, such as EPYC-9654.",
    get=lambda asked: asked.wish.host,
    put=_wished("host"),
    usual=lambda _: "",
)
EFFICIENCY = _share(
    "efficiency",
    USUAL.compute,
    "Achieved share of peak (%)",
    "peak FLOP/s",
    "tuned matrix products of transformers reach about half of it in whole training runs",
)
MEMORY_EFFICIENCY = _share(
    "memory_efficiency",
    USUAL.memory,
    "Achieved share of memory bandwidth (%)",
    "memory bandwidth",
    "streaming kernels reach about three quarters or more",
)
MEASURED_ON = Parameter[str](
    name="measured_on",
    scope=Scope.REAL_DEVICES,
    address="measured_on",
    flag="--measured-on",
    metavar="NAME[@P]",
    codec=SETUP,
    label="The file's times were measured on",
    help="Accelerator and precision that the file's times are for, such as V100-16@fp16, where the file does not say; "
    "they are scaled from there.",
    get=lambda asked: asked.wish.measured_on,
    put=_wished("measured_on"),
    usual=lambda _: "",
)
ROOFLINE = Parameter[bool](
    name="roofline",
    scope=Scope.REAL_DEVICES,
    address="roofline",
    flag="--roofline",
    codec=FLAG,
    label="Compute times where flops are known",
    help="Compute times by the roofline wherever flops are known, leaving measured times aside.",
    get=lambda asked: asked.wish.roofline,
    put=_wished("roofline"),
    usual=lambda _: False,
)

ACCELERATORS = Parameter[int](
    name="accelerators",
    scope=Scope.COUNTS,
    address="accelerators",
    flag="--accelerators",
    metavar="K",
    json="maxFPGAs",
    codec=COUNT,
    label="Accelerators",
    noun="accelerators",
    help="Number of accelerators.",
    get=lambda asked: asked.deployment.num_accelerators,
    put=lambda asked, value: asked.on(num_accelerators=value),
    usual=lambda asked: asked.own.num_accelerators,
    limits=Range(0, MAX_DEVICES),
    why_not=lambda asked: ONE_KIND_ONLY if asked.deployment.classes else "",
    axis=AxisTraits(
        "accelerators",
        "Accelerators",
        "accelerators",
        ("accelerator", "accelerators"),
        usual="1:12",
        is_whole=True,
        is_linear=True,
    ),
)
CPUS = Parameter[int](
    name="cpus",
    scope=Scope.COUNTS,
    address="cpus",
    flag="--cpus",
    metavar="L",
    json="maxCPUs",
    codec=COUNT,
    label="CPUs",
    noun="CPUs",
    help="Number of CPUs; they have no memory limit.",
    get=lambda asked: asked.deployment.num_cpus,
    put=lambda asked, value: asked.on(num_cpus=value),
    usual=lambda asked: asked.own.num_cpus,
    limits=Range(0, MAX_DEVICES),
    axis=AxisTraits("cpus", "CPUs", "cpus", ("CPU", "CPUs"), usual="0:4", is_whole=True, is_linear=True),
)


def _gib(deployment: Deployment) -> float | None:
    return None if deployment.memory_bytes is None else deployment.memory_bytes / GIB


MEMORY = Parameter[float | None](
    name="memory",
    scope=Scope.COUNTS,
    address="memory",
    flag="--memory",
    metavar="GIB",
    json="maxSizePerFPGA",
    codec=optional(NUMBER),
    unit=Unit.GIB,
    label="Memory (GiB)",
    noun="memory",
    help="Memory of one accelerator in GiB (2^30 bytes); none means no limit. CPUs have no limit.",
    get=lambda asked: _gib(asked.deployment),
    put=lambda asked, value: asked.on(memory_bytes=None if value is None else value * GIB),
    usual=lambda asked: _gib(asked.own),
    limits=Range(0, LARGEST_MEMORY_GIB),
    why_not=lambda asked: ONE_KIND_ONLY if asked.deployment.classes else "",
    text=lambda value: "no limit" if value is None else binary_size(value * GIB),
    axis=AxisTraits(
        "memory", "Memory per accelerator (GiB)", "memory_gib", short="Memory (GiB)", usual="1:64:x2", factor=GIB
    ),
)


def _gb_per_s(asked: Asked) -> float | None:
    own = asked.own_graph.bandwidth_bytes_per_ms
    return None if own is None else own / BYTES_PER_MS


def _own_links(asked: Asked) -> Range:
    own = _gb_per_s(asked) or 1.0
    return Range(min(LINK_RANGE.least, own), max(LINK_RANGE.most, own))


def _with_bandwidth(asked: Asked, value: float | None) -> Asked:
    if value is None or value == _gb_per_s(asked):
        return replace(asked, graph=asked.own_graph)
    return replace(asked, graph=asked.own_graph.with_bandwidth(value * BYTES_PER_MS))


BANDWIDTH = Parameter[float | None](
    name="bandwidth",
    scope=Scope.COUNTS,
    address="bandwidth",
    flag="--bandwidth",
    metavar="GB/S",
    codec=NUMBER,  # type: ignore[arg-type]  # None only where the graph's bytes do not tell the speed
    unit=Unit.GB_PER_S,
    label="Link (GB/s)",
    help="Bandwidth of every link between a device and host memory, in GB/s (10^9 bytes a second); on the command line "
    "also a multiple of the file's own, such as 2x.",
    get=lambda asked: (
        None if asked.graph.bandwidth_bytes_per_ms is None else asked.graph.bandwidth_bytes_per_ms / BYTES_PER_MS
    ),
    put=_with_bandwidth,
    usual=_gb_per_s,
    limits=LINK_RANGE,
    allowed=_own_links,
    why_not=lambda asked: (
        ONE_KIND_ONLY
        if asked.deployment.classes
        else "the file has no consistent bytes on its edges"
        if asked.own_graph.bandwidth_bytes_per_ms is None
        else ""
    ),
    axis=AxisTraits(
        "bandwidth",
        "Bandwidth of links (GB/s)",
        "bandwidth_gb_per_s",
        ("GB/s", "GB/s"),
        "Bandwidth (GB/s)",
        "1:64:x2",
        factor=BYTES_PER_MS,
    ),
)
BANDWIDTH_FACTOR = Parameter[float](
    name="bandwidth_factor",
    scope=Scope.COUNTS,
    address="bandwidth_factor",
    codec=NUMBER,
    unit=Unit.TIMES,
    label="Link speed (× file)",
    help="Link speed as a multiple of the file's own, for a file that has no consistent bytes on its edges.",
    get=lambda _: 1.0,
    put=lambda asked, value: (
        asked if value == 1 else replace(asked, graph=asked.own_graph.with_bandwidth_factor(value))
    ),
    usual=lambda _: 1.0,
    limits=LINK_RANGE,
    why_not=lambda asked: (
        ONE_KIND_ONLY
        if asked.deployment.classes
        else "the file's bytes tell the bandwidth of its links"
        if asked.own_graph.bandwidth_bytes_per_ms is not None
        else ""
    ),
    axis=AxisTraits(
        "bandwidth factor",
        "Bandwidth (multiple of the file's)",
        "bandwidth_factor",
        ("x bandwidth", "x bandwidth"),
        "Bandwidth (× file)",
        "0.25:8:x2",
    ),
)


def _no_servers(asked: Asked) -> str:
    return "servers need two accelerators or more" if asked.deployment.num_accelerators < 2 else ""


def _per_server(asked: Asked, value: int | None) -> Asked:
    if value is None:
        return asked.on(accelerators_per_server=None, server_link_speed=1.0)
    had_servers = asked.deployment.accelerators_per_server is not None
    speed = asked.deployment.server_link_speed if had_servers else _server_links(asked)
    return asked.on(accelerators_per_server=value, server_link_speed=speed)


def _server_links(asked: Asked) -> float:
    own = asked.own
    return USUAL_SERVER_LINK_SPEED if own.accelerators_per_server is None else own.server_link_speed


PER_SERVER = Parameter[int | None](
    name="accelerators_per_server",
    scope=Scope.MODEL,
    address="per_server",
    flag="--accelerators-per-server",
    metavar="N",
    json="acceleratorsPerServer",
    codec=optional(COUNT),
    label="Accelerators per server",
    noun="accelerators per server",
    help="Accelerators in one server: the first so many are in one, the next in another. Links within a server may be "
    "faster than those between servers and to CPUs. Plans are then the best found, with a bound that holds.",
    get=lambda asked: asked.deployment.accelerators_per_server,
    put=_per_server,
    usual=lambda asked: asked.own.accelerators_per_server,
    limits=Range(1, MAX_DEVICES),
    why_not=_no_servers,
    idle=lambda asked: _per_server(asked, None),
    needs="server_link_speed",
    axis=AxisTraits(
        "accelerators per server",
        "Accelerators per server",
        "accelerators_per_server",
        ("accelerator per server", "accelerators per server"),
        usual="1:8:x2",
        is_whole=True,
        is_linear=True,
        is_monotone=False,  # servers of 3 do not contain servers of 2
    ),
)
SERVER_LINK_SPEED = Parameter[float](
    name="server_link_speed",
    scope=Scope.MODEL,
    address="server_links",
    flag="--server-link-speed",
    metavar="X",
    json="serverLinkSpeed",
    codec=NUMBER,
    unit=Unit.TIMES,
    label="Intra-server bandwidth (×)",
    noun="links within a server",
    help="Bandwidth within a server as a multiple of that between servers and to CPUs.",
    get=lambda asked: asked.deployment.server_link_speed,
    put=lambda asked, value: asked.on(server_link_speed=value),
    usual=_server_links,
    limits=Range(1, LARGEST_FACTOR),
    why_not=lambda asked: "there are no servers" if asked.deployment.accelerators_per_server is None else "",
    text=lambda value: factor(value),
    needs="accelerators_per_server",
    axis=AxisTraits(
        "server link speed",
        "Links within a server (× between them)",
        "server_link_speed",
        ("x within servers", "x within servers"),
        "Links within a server (×)",
        "1:64:x2",
    ),
)
