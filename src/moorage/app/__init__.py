"""The scheduler as a process: its flags, its logs, and how its parts are put together and run."""
