"""The side bar: it goes where it lies over the page, once what was asked in it is under way."""

import time
from functools import cache
from typing import Any

import streamlit as st

OVER_PAGE_PX = 768
"""Width of the window up to which Streamlit lays the side bar over the page."""
JS = f"""\
let last = "";
export default ({{ data }}) => {{
  if (data.asked === last) return;
  last = data.asked;
  if (innerWidth <= {OVER_PAGE_PX}) document.querySelector("[data-testid='stSidebarCollapseButton'] button")?.click();
}};
"""


def uncover_page() -> None:
    """Close the side bar where it covers the page, as on a phone: what was asked for there is to be seen."""
    with st.sidebar:  # where it takes no room of the page
        _component()(data={"asked": repr(time.monotonic())}, key="uncover_page")


@cache
def _component() -> Any:
    return st.components.v2.component("dnn_placement_explorer.uncover_page", js=JS)
