"""What needs PyTorch: export a model to the importer of its archives, run its operators and measure them."""
