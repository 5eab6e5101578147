"""The Streamlit app: asks, calls the solvers, shows."""
