"""How well a scheduler did: what is measured in a simulation, and how runs are compared.

Owns the definition of each measure. During a run only lives are noted (`lives`); all the rest is
worked out of them afterwards.
"""
