"""What this app mends in Streamlit 1.67 by replacing methods of it: to be looked at anew with each of its releases."""
