"""Why a pod is where it is, or nowhere, and the least that would change it.

May import the engine and everything below; must do no I/O and must leave the state that it looks at
as it was.
"""
