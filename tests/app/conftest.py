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
