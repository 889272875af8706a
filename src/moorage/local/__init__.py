"""A whole cluster in one process: API server, simulated kubelets, controllers, scheduler.

Puts the pieces together and holds no rules of its own; the pieces meet over HTTP on loopback, as
they would on several machines.
"""
