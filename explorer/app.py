"""The entry point that Streamlit runs: title, navigation, nothing else."""

import streamlit as st

from explorer.pages import explore

st.set_page_config(page_title="DNN Placement Explorer", layout="wide", initial_sidebar_state="expanded")
# As options of a theme these would replace both of Streamlit's own themes, light and dark, by one.
st.html(
    """<style>
    .stMainBlockContainer { padding: 2rem 2rem 3rem; }
    [data-testid="stSidebarHeader"] { height: 2rem; margin-bottom: 0; }
    [data-testid="stMetricValue"] { font-size: 1.6rem; }
    </style>"""
)
st.navigation([st.Page(explore.show, title="Explore", default=True)], position="hidden").run()
