"""Pods that wait to be scheduled, and the rules by which they wait.

`queue.SchedulingQueue` is the door; the other modules each keep one of the places a pod can be in.
This package module imports nothing, because `engine.requeueing` needs `entities` and the queue
needs `engine.requeueing`.
"""
