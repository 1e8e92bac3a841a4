"""The pages about servers, made from the profiles and the recorded exchanges: ``python -m docs.generate``.

What a profile says is told in sentences (`docs.generate.facts`), so that a person who has never seen a profile can read
what is odd about a server and what becomes of it. The pages are committed; a test says when they are not current.
"""
