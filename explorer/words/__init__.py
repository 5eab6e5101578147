"""Labels and numbers as a person reads them."""
