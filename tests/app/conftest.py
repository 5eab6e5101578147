"""AppTest as quick as the page it runs."""

from collections.abc import Iterator
from functools import cache

import pytest
from streamlit.components.v2 import manifest_scanner


@pytest.fixture(scope="session", autouse=True)
def components_are_looked_for_once() -> Iterator[None]:
    """Look for components in the packages of the environment once, not for every page.

    Each AppTest of Streamlit 1.67 reads the metadata of them all, nine tenths of the time of a page that is small.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(autouse=True)
def nothing_goes_on_after_a_test() -> Iterator[None]:
    """End what pages have asked for once their test is over.

    On Explore that is what other splits would bring, up to ten seconds of a core, which would be missing to the next
    test: without a server every session counts as open.
    """
    yield
    from explorer.jobs.server_pool import solver_pool  # loads Streamlit, which some tests do without

    if solver_pool.cache_info().currsize:
        for session in solver_pool().others(""):
            solver_pool().release(session)
