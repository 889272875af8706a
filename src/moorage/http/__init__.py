"""The scheduler's own HTTPS port: who may ask, and what it answers."""
