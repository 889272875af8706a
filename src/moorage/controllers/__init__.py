"""Controllers as pure state machines: what the cluster has and the time in, writes out.

One module per controller; each works out from scratch what is missing, so that nothing is lost
when a write is refused or a process ends. No I/O, no clock of their own, no dice: the API server
makes names. `moorage.local.controllers` runs them over the API.
"""
