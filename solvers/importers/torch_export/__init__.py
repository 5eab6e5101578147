"""Import archives of `torch.export`: found in the file, read, priced operator by operator, and written as a network."""
