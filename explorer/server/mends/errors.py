"""What a page says of an error of the program that nobody foresaw, wherever in it: one sentence of our own.

Streamlit 1.67 speaks of its cloud there. Its handler of errors could say something else, but either beside that or
without the element that tells a test of the error. There is no option for the words.
"""

from streamlit.elements import exception

TEXT = (
    "Something went wrong in the program, so this page is incomplete. Change an input to try again, or reload the page "
    "to go back to how it was last complete. The output of the server has the details."
)


def tell_errors() -> None:
    """Have Streamlit show TEXT for an error whose details it keeps to itself."""
    setattr(exception, "_GENERIC_UNCAUGHT_EXCEPTION_TEXT", TEXT)  # noqa: B010 -- a constant of another library
