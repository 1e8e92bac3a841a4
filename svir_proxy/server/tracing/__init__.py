"""OpenTelemetry: a span for each request, and one for each attempt with a backend. Loaded only where traces are on."""
