"""Plans without proof, one file each: what solvers start from and are compared with."""
