"""The entry point that Streamlit runs: title, navigation, nothing else."""

import streamlit as st

from explorer.pages import explore

st.set_page_config(page_title="DNN Placement Explorer", layout="wide", initial_sidebar_state="expanded")
st.navigation([st.Page(explore.show, title="Explore", url_path="explore", default=True)], position="hidden").run()
