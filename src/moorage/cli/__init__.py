"""Commands: they read arguments, call the layers below and print.

One module per command. Nothing here is worth a unit test of its own; whatever is belongs below.
"""
