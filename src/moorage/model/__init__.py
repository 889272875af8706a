"""Kubernetes objects as frozen values.

Owns what the API's objects look like to a scheduler and the rules that belong to one object
alone: quantities, selectors, tolerations, a pod's resource requests. Knows nothing of clusters,
columns, configuration or I/O, and imports no other package of Moorage but `moorage.errors`.
"""
