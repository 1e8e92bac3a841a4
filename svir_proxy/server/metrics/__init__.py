"""What is counted about requests, and what Prometheus gets to read of it.

Counting is plain numbers in dicts, once per request, after its answer is out. Everything else happens when somebody
asks: gauges are read from what lives, the numbers of all workers are put together, the text is written.
"""
