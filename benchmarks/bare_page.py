"""A bare page of Streamlit with a number and a chart: the memory of the app's page is held against that of this one."""

import plotly.graph_objects as go
import streamlit as st

count = int(st.number_input("Accelerators", min_value=1, max_value=99, value=6))
st.query_params["accelerators"] = str(count)
st.metric("Accelerators", count)
for line in range(20):
    st.markdown(f"Line {line} of {count}.")
st.plotly_chart(go.Figure(go.Bar(y=list(range(count)))))
