"""Learns what a server does with a request by asking it small questions.

``questions`` is what is asked and how the answers are judged: dialogues without I/O, each a generator that yields what
to ask and what it has found. ``interview`` holds them, ``wire`` carries them, ``recognition`` says what kind of server
it is, and ``report``, ``difference`` and ``written_profile`` are what comes out.
"""
