"""What the pages for people say is so: see `tests.docs.pages`."""
