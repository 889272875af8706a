"""A real control plane on loopback: started from its programs, and ended with whoever started it.

For `moorage up`, benchmarks and end-to-end tests. Knows no scheduler and decides nothing.
"""
