"""Upstream's scheduler_perf: its op lists, run unchanged against Moorage (or another scheduler)."""
