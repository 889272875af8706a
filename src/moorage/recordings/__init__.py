"""A live cluster written down (`moorage record`), and its scheduler's decisions made again.

Owns the form of recordings (docs/record.md). What is recorded is what a scheduler reads, and
nothing else: objects are decoded into the model, which has no place for the rest.
"""
