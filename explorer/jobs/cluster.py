"""The Dask cluster that sweeps may run on: named by whoever starts the app, and by nobody else.

What a scheduler answers is unpickled, which runs whatever it says in the server. So its address is the operator's to
give, on the command line or in the environment, and no page, address or file of a visitor has any part in it.
"""

import os

VARIABLE = "PLACEMENT_DASK"
"""The environment variable that holds the address; the option `--dask` of the command sets it."""


def scheduler() -> str:
    """Return the address of the scheduler, such as tcp://10.0.0.1:8786; empty where the operator named none."""
    return os.environ.get(VARIABLE, "").strip()
