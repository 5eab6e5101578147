"""The lessons of the course, one file each; those in JSON are in the format that anyone can write."""
