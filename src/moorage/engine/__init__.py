"""The scheduler proper: from a pod in the queue to a decision.

Synchronous, without I/O; takes its clock as an argument. Decisions are values that somebody else
carries out.
"""
