"""The program `intellect-node`: roles, command line, and the only package that knows the others."""
