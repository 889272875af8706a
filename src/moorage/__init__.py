"""Moorage: kube-scheduler, written in Python."""
