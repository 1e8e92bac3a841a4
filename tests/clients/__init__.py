"""Real SDKs against the running proxy: see README.md in this folder."""
