"""Traces: what came to real clusters and left them, in the layouts that they are published in.

A module per layout; each makes `TraceChange`s of files, one after the other. None knows a
simulation.
"""
