"""Measurements of whole schedulers: as processes at an API server, and through upstream's op lists.

Starts control planes and schedulers, gives them work, watches and counts. Decides nothing about
scheduling; printing is the commands' part.
"""
