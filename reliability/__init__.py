"""Commands that run the proxy for real, too hard or for long, and look at what it holds; see README.md."""
