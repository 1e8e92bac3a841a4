"""What it means to be in the dialect, as programs: the checker, the recorded cases, and what plays and judges them.

``svir-proxy conform`` asks any server with them, ``svir-proxy record`` adds to them, the tests hold the proxy to them.
Nothing here imports the proxy: it must be able to say that the proxy is wrong.
"""
