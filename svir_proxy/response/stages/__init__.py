"""Steps from events to events, in the order they run: think tags, text calls, tool calls, finish."""
