"""Clusters without a cluster: manifests in, decisions of the same engine out.

Owns reading a cluster from files and playing it. Holds no scheduling logic of its own.
"""
