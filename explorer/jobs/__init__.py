"""Work beside the page: solver processes, their queue, what is known of a solve. No Streamlit pages here."""
