"""Plugins beside kube-scheduler's own, ready to be enabled by name in a configuration.

Each is written as somebody else's plugin would be, against `moorage.framework.plugin` alone.
"""
