"""What a plugin is, and how plugins are run.

Owns the extension points, the registry, profiles, and the running of filters and scorers over the
columns. Must not know any particular plugin, and does no I/O.
"""
