"""The pages as Streamlit runs them, without a browser."""
