"""Real clusters: how to reach them, what is asked of them, and the changes they report.

Talks to API servers over HTTP and hands objects of the model to handlers; decides nothing about
scheduling, and knows neither the embedded API server nor the simulator.
"""
