"""The scheduler's own HTTPS port: who may ask, and what they are told."""
