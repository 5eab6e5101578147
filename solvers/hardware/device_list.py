"""A cluster in one line: so many accelerators of each kind, as `--devices` and the app's addresses have it.

    2xA100-80:link=nvlink3+4xT4:link=pcie3-x16
    2xbig:memory=80GiB+4xsmall:speed=0.25,memory=16GiB,link=0.5

`+` parts the kinds, each `COUNTxNAME` and, after a colon, settings `key=value`; a single kind may go without a count,
which then comes from elsewhere. Names of the catalogue bring their own figures, which settings may change:

    link        a link of the catalogue, or a speed such as 25GB/s
    precision   bf16, fp16 ...: that of the matrix products
    memory      80GB or 80GiB
    bandwidth   2039GB/s, to its own memory
    peak        312TFLOP/s, dense, in its precision

Where any kind has a `speed`, all are classes relative to the times of the graph's file, under names of their own:

    speed       its times are divided by it (1 unless said)
    link        its transfer times are divided by it, a number (1 unless said)
    memory      as above; no limit unless said
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from solvers.hardware.devices import (
    GB,
    GB_PER_S,
    TFLOP_PER_S,
    Accelerator,
    Catalogue,
    CatalogueError,
    Link,
    names_near,
    short_name,
)
from solvers.hardware.equipment import Equipped, Group, precision_of
from solvers.hardware.roofline import precision_named
from solvers.model.deployment import MAX_CLASSES, MAX_DEVICES, Deployment, DeviceClass
from solvers.model.errors import DeploymentError
from solvers.model.graph import DnnGraph, TimesOrigin
from solvers.quantities import listed, number

SETTINGS = ("speed", "link", "precision", "memory", "bandwidth", "peak")
UNITS = {"GB": GB, "GiB": 2.0**30, "GB/s": GB_PER_S, "TFLOP/s": TFLOP_PER_S}
MAX_LENGTH = 2000
ENTRY = re.compile(r"(?:(\d{1,6})\s*[x×]\s*)?([A-Za-z][A-Za-z0-9._-]{0,39})\s*(?::(.*))?", re.DOTALL)
NUMBER = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z/]*)")


@dataclass(frozen=True, slots=True)
class Listed:
    """One kind of a list: how many, of what name, with which settings by their keys, as they are written."""

    count: int | None
    name: str
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        settings = ",".join(f"{key}={value}" for key, value in self.settings)
        count = "" if self.count is None else f"{self.count}x"
        return f"{count}{self.name}{':' if settings else ''}{settings}"

    def with_setting(self, key: str, value: str | None) -> "Listed":
        """Return the kind with a setting changed, or without it where the value is None."""
        settings = {**dict(self.settings), key: value}
        return replace(self, settings=tuple((k, v) for k, v in settings.items() if v is not None))


def parse_devices(text: str) -> tuple[Listed, ...]:
    """Return the kinds of a list; DeploymentError, in one sentence, for a text that is none.

    >>> [str(kind) for kind in parse_devices("2xA100-80 + 4 x T4: link=pcie3-x16")]
    ['2xA100-80', '4xT4:link=pcie3-x16']
    """
    if len(text) > MAX_LENGTH:
        raise DeploymentError(f"The list of devices has {len(text)} characters; up to {MAX_LENGTH} are read.")
    kinds = tuple(_entry(part) for part in text.split("+"))
    if len(kinds) > MAX_CLASSES:
        raise DeploymentError(f"The list has {len(kinds)} device types; give up to {MAX_CLASSES}.")
    if len(kinds) > 1 and (uncounted := [kind.name for kind in kinds if kind.count is None]):
        raise DeploymentError(f"There is no count of {uncounted[0]}; write COUNTxNAME, such as 2x{uncounted[0]}.")
    return kinds


def devices_text(kinds: tuple[Listed, ...]) -> str:
    """Write a list so that `parse_devices` reads it."""
    return "+".join(map(str, kinds))


def _entry(part: str) -> Listed:
    match = ENTRY.fullmatch(part.strip())
    if match is None:
        raise DeploymentError(f"{short_name(part.strip())} is not a device type; write COUNTxNAME, such as 2xA100-80.")
    count, name, rest = None if match[1] is None else int(match[1]), match[2], match[3]
    if count is not None and count > MAX_DEVICES:
        raise DeploymentError(f"{count} devices {name}: give a number from 0 to {MAX_DEVICES}.")
    settings: dict[str, str] = {}
    for setting in [] if rest is None else rest.split(","):
        key, equals, value = (word.strip() for word in setting.partition("="))
        if key not in SETTINGS or not equals or not value:
            raise DeploymentError(
                f"{name}: {short_name(setting.strip())} is no setting; write key=value, where the key is one of "
                f"{', '.join(SETTINGS)}."
            )
        if key in settings:
            raise DeploymentError(f"{name}: {key} is given twice; keep one.")
        settings[key] = value
    return Listed(count, name, tuple(settings.items()))


def is_relative(kinds: tuple[Listed, ...]) -> bool:
    """Whether the kinds are classes relative to the file's times: where one of them has a speed, all are."""
    return any("speed" in dict(kind.settings) for kind in kinds)


def is_of_catalogue(kinds: tuple[Listed, ...], devices: Catalogue) -> bool:
    """Whether the kinds are accelerators of the catalogue, not classes relative to the file's times.

    Raises CatalogueError for a name that the catalogue does not have in a list without a speed, so that no real device
    gets the file's times by a slip; DeploymentError for one that it has in a list with a speed: nothing says how its
    times compare with those of the file.
    """
    names = [accelerator.name for accelerator in devices.accelerators]
    known = {name.lower() for name in names}
    if not is_relative(kinds):
        if unknown := [kind.name for kind in kinds if kind.name.lower() not in known]:
            raise CatalogueError(
                f"There is no accelerator {short_name(unknown[0])} in the catalogue; {names_near(unknown[0], names)}, "
                f"or give its speed relative to the file's times, such as {unknown[0]}:speed=0.5."
            )
        return True
    for kind in kinds:
        if kind.name.lower() in known:
            if "speed" in dict(kind.settings):
                raise DeploymentError(_speed_of_known(kind.name))
            plain = next(kind.name for kind in kinds if "speed" in dict(kind.settings))
            raise DeploymentError(
                f"{kind.name} is of the catalogue and {plain} is relative to the file's times; give {plain} by a name "
                f"of the catalogue without a speed, or both names of their own."
            )
    return False


def _speed_of_known(name: str) -> str:
    return (
        f"{name} has its times from the catalogue; leave its speed out, or take another name for a class relative to "
        "the file's times."
    )


def device_classes(kinds: tuple[Listed, ...]) -> tuple[DeviceClass, ...]:
    """Return the kinds as classes relative to the times of a file; DeploymentError for settings these cannot have.

    >>> device_classes(parse_devices("4xsmall:speed=0.25,memory=16GB,link=0.5"))
    (DeviceClass(name='small', count=4, speed=0.25, memory_bytes=16000000000.0, link_speed=0.5),)
    """
    classes = []
    for kind in kinds:
        settings = dict(kind.settings)
        if kind.count is None:
            raise DeploymentError(f"There is no count of {kind.name}; write COUNTxNAME, such as 2x{kind.name}.")
        if unknown := [key for key in settings if key in ("precision", "bandwidth", "peak")]:
            raise DeploymentError(
                f"{kind.name} is relative to the file's times, so its {unknown[0]} says nothing; leave it out."
            )
        memory = settings.get("memory")
        classes.append(
            DeviceClass(
                kind.name,
                kind.count,
                _number(kind, "speed", settings.get("speed", "1")),
                None if memory is None else _number(kind, "memory", memory, "GB", "GiB"),
                _number(kind, "link", settings.get("link", "1")),
            )
        )
    return tuple(classes)


def with_relative(graph: DnnGraph, deployment: Deployment, classes: tuple[DeviceClass, ...]) -> Equipped:
    """Return a graph and its deployment on classes relative to the times of the file, which stay as they are."""
    total = sum(device_class.count for device_class in classes)
    placed = replace(deployment, num_accelerators=total, memory_bytes=None, classes=classes)
    return Equipped(graph, placed, remarks=(relative_sentence(classes),))


def relative_sentence(classes: tuple[DeviceClass, ...]) -> str:
    """Say that classes are relative to the file's times, how fast they are, and which have no memory limit.

    >>> relative_sentence(device_classes(parse_devices("2xbig+4xsmall:speed=0.25,memory=16GB")))
    "Devices relative to the file's times: big 1 times as fast, small 0.25 times; no memory limit for big."
    """
    first, *rest = (f"{one.name} {number(one.speed)} times" for one in classes)
    unlimited = [one.name for one in classes if one.memory_bytes is None]
    limits = f"; no memory limit for {listed(unlimited)}" if unlimited else ""
    return f"Devices relative to the file's times: {', '.join([f'{first} as fast', *rest])}{limits}."


def groups(kinds: tuple[Listed, ...], devices: Catalogue, times: TimesOrigin | None = None) -> tuple[Group, ...]:
    """Return the kinds as groups of accelerators of the catalogue, their figures changed where settings say so.

    `times` is what the graph's times are for: it decides the precision whose peak is changed where none is given.
    Raises CatalogueError or DeploymentError, in one sentence, for what the catalogue does not have.
    """
    return tuple(_group(kind, devices, times) for kind in kinds)


def _group(kind: Listed, devices: Catalogue, times: TimesOrigin | None) -> Group:
    settings = dict(kind.settings)
    accelerator = devices.accelerator(kind.name)
    if "speed" in settings:
        raise DeploymentError(_speed_of_known(kind.name))
    link = None if "link" not in settings else _link(kind, settings["link"], devices)
    precision = None if "precision" not in settings else precision_named(settings["precision"])
    group = Group(accelerator, kind.count, link, precision)
    used = precision_of(group, times)
    accelerator.peak_flops_per_ms(used)  # there is one, or it is said that there is none
    return replace(group, accelerator=_changed(kind, accelerator, used, settings))


def _changed(kind: Listed, accelerator: Accelerator, precision: str, settings: Mapping[str, str]) -> Accelerator:
    if "memory" in settings:
        memory = _number(kind, "memory", settings["memory"], "GB", "GiB")
        accelerator = replace(accelerator, memory_bytes=memory)
    if "bandwidth" in settings:
        bandwidth = _number(kind, "bandwidth", settings["bandwidth"], "GB/s")
        accelerator = replace(accelerator, bandwidth_bytes_per_ms=bandwidth)
    if "peak" in settings:
        peak = _number(kind, "peak", settings["peak"], "TFLOP/s")
        peaks = tuple((p, peak if p == precision else own) for p, own in accelerator.peaks)
        accelerator = replace(accelerator, peaks=peaks)
    return accelerator


def _link(kind: Listed, text: str, devices: Catalogue) -> Link:
    if not text[0].isdigit():
        return devices.link(text)
    speed = _number(kind, "link", text, "GB/s")
    return Link(text, f"a link of {kind.name}", 0, speed, speed, "", ())


def _number(kind: Listed, key: str, text: str, *units: str) -> float:
    """Read a positive number in one of these units, or without any where none is given."""
    match = NUMBER.fullmatch(text)
    wanted = f"a number with its unit, {' or '.join(units)}" if units else "a number, such as 0.5"
    if match is None or match[2] not in (units or ("",)):
        if key == "link":
            wanted = "a link of the catalogue or a speed such as 25GB/s" if units else "a number, such as 0.5"
        raise CatalogueError(f"{kind.name}: {key} is {short_name(text)}; give {wanted}.")
    value = float(match[1]) * UNITS.get(match[2], 1.0)
    if not 0 < value < 1e18:
        raise CatalogueError(f"{kind.name}: {key} is {short_name(text)}, which is out of range; give {wanted}.")
    return value
