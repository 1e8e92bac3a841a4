"""Fuzzing: whatever bytes come, what goes on is valid. See README.md."""
