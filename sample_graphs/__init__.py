"""Sample graphs as JSON, and beside them the generators that write them."""
