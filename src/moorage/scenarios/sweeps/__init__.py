"""Sweeps: a scenario played with many settings, and the best of them."""
