"""The cluster state, kept in columns.

One writer applies events and decisions to `ClusterState`; everybody else reads it through a
`NodeView`. Nothing is ever copied to be read: the state between two events *is* the snapshot.
Knows nothing of plugins, configuration, clocks or I/O.
"""
