"""The address of the page Sweep, which holds all that is asked and looked at, and the addresses of its points.

    /sweep?sample=gpt2_xl_layer_inference&over=accelerators&values=1:12&and=memory&and_values=4:64:x2&show=per-cost

What is not about the sweep itself (graph, devices, objective, assumptions, splits, solver, limit) is said as in an
address of Explore, so that either page opens the other's. The address of a Dask scheduler stays out: it is one of the
machine that serves the app, not of the question, and whoever follows a link should not be made to run things there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from explorer.assumptions import Assumptions
from explorer.devices import equipped_by
from explorer.inputs import BYTES_PER_MS, DEFAULT_SAMPLE, GIB, MAX_MICRO_BATCHES, SCHEDULE_OF, USUAL_LIMIT_S
from explorer.jobs import Question
from explorer.link import NO_LIMIT, Link, from_query, to_query
from explorer.session import LoadedGraph, Subject
from solvers.costs import Objective
from solvers.deployment import Communication, Deployment
from solvers.device_list import devices_text, is_of_catalogue, parse_devices
from solvers.errors import PlacementError
from solvers.prices import MAX_PRICE, PriceBasis, Prices
from solvers.samples import read_sample, sample_info, sample_names
from solvers.schedule_types import INFERENCE_KINDS, TRAINING_KINDS
from solvers.split import Family
from solvers.sweep_analysis import Measure
from solvers.sweep_axes import OF_A_CLASS, Change, DeviceSource, Quantity, Varied
from solvers.sweep_plan import Index, SweepSpec

PARTS = ("over", "values", "and", "and_values", "show", "prices", "cpu_price", "pay", "at_least", "budget")
"""Parts of the address that only this page has."""
SETTINGS = {Quantity.MEMORY: ("memory", GIB, "GiB"), Quantity.BANDWIDTH: ("link", BYTES_PER_MS, "GB/s")}
"""What a list of devices calls the figures of one class that may vary, and their units."""
MAX_TEXT = 2000


def axis_name(varied: Varied) -> str:
    """Write what varies for an address.

    >>> axis_name(Varied(Quantity.MEMORY, "T4")), axis_name(Varied(Quantity.MEMORY))
    ('memory:T4', 'memory')
    """
    return varied.quantity + (f":{varied.of_class}" if varied.of_class else "")


def axis_named(text: str) -> Varied | None:
    """Read what varies; None for a text that names nothing.

    >>> axis_named("count:T4"), axis_named("speed")
    (Varied(quantity=<Quantity.COUNT: 'count'>, of_class='T4'), None)
    """
    name, _, of_class = text.partition(":")
    allowed = list(OF_A_CLASS) if of_class else [quantity for quantity in Quantity if quantity is not Quantity.COUNT]
    return next((Varied(quantity, of_class) for quantity in allowed if quantity == name), None)


def prices_query(prices: Prices) -> dict[str, str]:
    """Return what an address says of prices; nothing of those at their usual values."""
    query: dict[str, str] = {}
    if prices.of:
        query["prices"] = ",".join(f"{quote(name)}={price:.10g}" for name, price in prices.of)
    if prices.cpu:
        query["cpu_price"] = f"{prices.cpu:.10g}"
    if prices.basis is not PriceBasis.PER_HOUR:
        query["pay"] = prices.basis.value
    return query


def prices_from(query: Mapping[str, str]) -> tuple[Prices, tuple[str, ...]]:
    """Return the prices of an address, and a phrase for each part that cannot be used.

    >>> prices_from(prices_query(Prices(of=(("a,b=", 2.5),), basis=PriceBasis.TO_BUY)))[0]
    Prices(accelerator=None, cpu=0.0, of=(('a,b=', 2.5),), basis=<PriceBasis.TO_BUY: 'to buy'>)
    """
    of, problems = [], []
    for part in filter(None, query.get("prices", "")[:MAX_TEXT].split(",")):
        name, _, text = part.partition("=")
        price = number_from(text)
        if name and price is not None:
            of.append((unquote(name), price))
        else:
            problems.append(f"prices {part[:40]} (write NAME=PRICE)")
    cpu = number_from(query.get("cpu_price", "0"))
    if cpu is None:
        problems.append(f"cpu_price {query['cpu_price'][:40]} (give a number such as 0.5)")
    basis = next((basis for basis in PriceBasis if basis == query.get("pay")), PriceBasis.PER_HOUR)
    if query.get("pay", basis) != basis:
        problems.append(f"pay {query['pay'][:40]} (give one of {', '.join(PriceBasis)})")
    return Prices(cpu=cpu or 0.0, of=tuple(of), basis=basis), tuple(problems)


def number_from(text: str) -> float | None:
    """Read a price, a budget or a throughput; None for a text that is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= MAX_PRICE else None


def measure_from(query: Mapping[str, str]) -> Measure:
    """Return the measure an address asks to show."""
    return next((measure for measure in Measure if measure == query.get("show")), Measure.THROUGHPUT)


def link_of(query: Mapping[str, str]) -> tuple[Link, tuple[str, ...]]:
    """Return what an address says that Explore says too, and a phrase for each part that cannot be used."""
    return from_query({name: text for name, text in query.items() if name not in PARTS})


def asks_same_question(one: Link, other: Link) -> bool:
    """Whether two links ask the same of the same graph, however it is looked at and kept."""
    beside: dict[str, Any] = dict.fromkeys(("level", "colour", "lanes", "edits", "keep", "schedule", "chunks"))
    beside["weight_gradients"] = None
    return to_query(replace(one, **beside)) == to_query(replace(other, **beside))


def subject_of_link(link: Link, uploaded: LoadedGraph | None = None) -> tuple[Subject, tuple[str, ...]]:
    """Return the question that an address of Explore asks, as Explore asks it, and sentences on what it did not get."""
    said: list[str] = []
    loaded = _loaded(link, uploaded, said)
    try:
        on = equipped_by(loaded, link)
        graph, deployment = on.graph, on.deployment
    except PlacementError as error:
        said.append(f"The devices of this address were not applied. {error}")
        graph, deployment = loaded.graph, loaded.deployment
    try:
        deployment = _with_counts(deployment, link)
        if link.bandwidth and graph.bandwidth_bytes_per_ms is not None and not deployment.classes:
            graph = graph.with_bandwidth(link.bandwidth * BYTES_PER_MS)
        elif link.bandwidth_factor and not deployment.classes:
            graph = graph.with_bandwidth_factor(link.bandwidth_factor)
        deployment = _with_assumptions(loaded, deployment, link)
    except PlacementError as error:
        said.append(f"The hardware of this address was not applied. {error}")
    objective = link.objective or Objective.THROUGHPUT
    limit_s = float(link.limit or USUAL_LIMIT_S)
    family = link.splits or Family.CHAIN
    question = Question(graph.digest, deployment, objective, link.solver or "auto", family, limit_s)
    return Subject(loaded, graph, question, replace(link, edits=None, keep=None)), tuple(said)


def _loaded(link: Link, uploaded: LoadedGraph | None, said: list[str]) -> LoadedGraph:
    if link.graph is not None:
        if uploaded is not None and uploaded.graph.digest.startswith(link.graph):
            return uploaded
        said.append("The uploaded graph of this address is not on this server any more; open the file on Explore.")
    name = link.sample or DEFAULT_SAMPLE
    if name not in sample_names():
        said.append(f"There is no sample {name}; this is {sample_info(DEFAULT_SAMPLE).title}.")
        name = DEFAULT_SAMPLE
    return LoadedGraph(*read_sample(name), sample_info(name).title)


def _with_counts(deployment: Deployment, link: Link) -> Deployment:
    if link.cpus is not None:
        deployment = replace(deployment, num_cpus=link.cpus)
    if deployment.classes:
        return deployment
    if link.accelerators is not None:
        deployment = replace(deployment, num_accelerators=link.accelerators)
    if link.memory is not None:
        deployment = replace(deployment, memory_bytes=None if link.memory == NO_LIMIT else link.memory * GIB)
    return deployment


def _with_assumptions(loaded: LoadedGraph, deployment: Deployment, link: Link) -> Deployment:
    """Return a deployment under the assumptions of a link, as the form of Explore makes them."""
    servers = None if link.per_server in (None, NO_LIMIT) else int(link.per_server or 1)
    assumptions = Assumptions(
        link.transfers or Communication.SUM,
        link.replicas or 1,
        bool(link.in_flight),
        link.subgraphs or 1,
        servers,
        (link.server_links or 1.0) if servers else 1.0,
    )
    objective = link.objective or Objective.THROUGHPUT
    kinds = TRAINING_KINDS if loaded.graph.is_training else INFERENCE_KINDS
    usual = min(MAX_MICRO_BATCHES, max(12, 3 * loaded.deployment.num_accelerators))
    schedule = link.schedule or SCHEDULE_OF.get(objective, kinds[0])
    return assumptions.on(deployment, schedule, link.micro_batches or usual)


def link_to_point(spec: SweepSpec, subject: Subject, index: Index) -> Link:
    """Return the address of Explore with the question of a point: its hardware, splits, solver and limit.

    Raises PlacementError where Explore cannot ask it: it takes counts and devices of the catalogue only.
    """
    asked = spec.asked(index)
    deployment = asked.deployment
    memory = deployment.memory_bytes
    is_latency = asked.objective is Objective.LATENCY
    link = replace(
        subject.link,
        accelerators=deployment.num_accelerators,
        cpus=deployment.num_cpus,
        memory=NO_LIMIT if memory is None else memory / GIB,
        objective=asked.objective,
        splits=None if is_latency else spec.family,
        solver=None if spec.method == "auto" else spec.method,
        limit=None if spec.time_limit_s in (None, USUAL_LIMIT_S) else int(spec.time_limit_s or USUAL_LIMIT_S),
        edits=None,
        keep=None,
    )
    if deployment.classes:
        link = replace(link, accelerators=None, memory=None)
    changes = spec.changes(index)
    if any(varied.quantity is Quantity.DEVICES for varied, _ in changes):
        link = replace(link, bandwidth=None, bandwidth_factor=None)  # a list brings links of its own
    for varied, value in changes:
        if varied.of_class:
            continue  # in the list of devices
        if varied.quantity is Quantity.BANDWIDTH:
            link = replace(link, bandwidth=float(value) / BYTES_PER_MS)
        elif varied.quantity is Quantity.BANDWIDTH_FACTOR:
            link = replace(link, bandwidth_factor=float(value))
        elif varied.quantity is Quantity.DEVICES:
            link = replace(link, devices=str(value))
        elif varied.quantity is Quantity.MICRO_BATCHES:
            link = replace(link, micro_batches=int(value))
    return _without_usual(_with_list(link, deployment, changes, spec.source), subject.loaded)


def _without_usual(link: Link, loaded: LoadedGraph) -> Link:
    """Return a link without what Explore shows anyway, as Explore writes it: else Back would pass it twice."""
    own = equipped_by(loaded, link)
    memory, bandwidth = own.deployment.memory_bytes, own.graph.bandwidth_bytes_per_ms
    usual = {
        "sample": DEFAULT_SAMPLE,
        "accelerators": own.deployment.num_accelerators,
        "cpus": own.deployment.num_cpus,
        "memory": NO_LIMIT if memory is None else memory / GIB,
        "bandwidth": None if bandwidth is None else bandwidth / BYTES_PER_MS,
        "bandwidth_factor": 1.0,
        "objective": Objective.THROUGHPUT,
        "splits": Family.CHAIN,
    }
    return replace(link, **{name: None for name, value in usual.items() if getattr(link, name) == value})


def _with_list(link: Link, deployment: Deployment, changes: tuple[Change, ...], source: DeviceSource) -> Link:
    """Return a link whose list of devices has the counts of a deployment, and what else of a class is changed."""
    if not link.devices:
        if deployment.classes:
            raise PlacementError("Explore shows the devices of the graph's own file and cannot change them.")
        return link
    kinds = parse_devices(link.devices)
    if not is_of_catalogue(kinds, source.catalogue):
        raise PlacementError("Explore takes devices of the catalogue, not such that are relative to the file's times.")
    if not deployment.classes:
        return link
    listed = []
    for kind, one in zip(kinds, deployment.classes, strict=True):
        changed = replace(kind, count=one.count)
        for varied, value in changes:
            if varied.of_class == one.name and varied.quantity in SETTINGS:
                key, unit, name = SETTINGS[varied.quantity]
                changed = changed.with_setting(key, f"{float(value) / unit:.12g}{name}")
        listed.append(changed)
    return replace(link, devices=devices_text(tuple(listed)))
