"""Published models by name, so that no file is needed: the fields of their configs, and where these are from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from solvers.hardware.devices import names_near, short_name
from solvers.model.errors import SourceError


@dataclass(frozen=True, slots=True)
class Preset:
    """A published model; `published_parameters` as printed at `published_source`, `remark` on what they count."""

    name: str
    title: str
    config: Mapping[str, Any]
    config_source: str
    published_parameters: float
    published_source: str
    remark: str = ""


@cache
def presets() -> tuple[Preset, ...]:
    """Return all presets, in the order of a menu."""
    text = (files("solvers.importers.hugging_face") / "presets.json").read_text(encoding="utf-8")
    return tuple(
        Preset(
            entry["name"],
            entry["title"],
            entry["config"],
            entry["config_source"],
            float(entry["published"]["parameters"]),
            entry["published"]["source"],
            entry["published"].get("what", ""),
        )
        for entry in json.loads(text)["presets"]
    )


def preset(name: str) -> Preset:
    """Return the preset of this name, whatever its capitals; SourceError names those near it.

    >>> preset("Llama-3.1-8B").config["num_hidden_layers"]
    32
    """
    for known in presets():
        if known.name == name.lower():
            return known
    near = names_near(name, [known.name for known in presets()])
    raise SourceError(
        f"There is no file and no preset {short_name(name)}; {near}. Give a config.json, its folder, or a preset."
    )
