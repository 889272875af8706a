"""Connections that clients open to this process: accepted, limited, and closed."""
