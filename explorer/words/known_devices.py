"""The catalogue of devices that the app offers: the program's own, with those of a file named when it was started."""

import os
from functools import cache

from solvers.hardware.catalogue import catalogue, read_catalogue
from solvers.hardware.devices import Catalogue

VARIABLE = "PLACEMENT_CATALOGUE"
"""The environment variable through which the command that starts the app hands on the file."""


@cache
def known_devices() -> Catalogue:
    """Return the catalogue; CatalogueError where the file that was named is none."""
    path = os.environ.get(VARIABLE)
    return read_catalogue(path) if path else catalogue()
