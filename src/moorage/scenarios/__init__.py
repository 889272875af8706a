"""What `moorage simulate` plays: days of a cluster's life in virtual time.

Owns scenarios, the cluster that they are played on, and what is measured. Scheduler, controllers
and kubelets are the live ones.
"""
