"""What a plan means: why it is as fast as it is, how it differs from another, what would help."""
