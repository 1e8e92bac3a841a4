"""The inspector: a page that shows what the proxy does at this moment, to whoever may see it.

Imported only where it is on. `exhibit` and `recorder` keep what is known of requests, `observed` is where they learn
it, `veil` decides what of it may be seen, `feed` and `routes` are the way to the browser.
"""

from typing import Final

PATH: Final = "/svir/inspector"
"""Where the page is; everything of it is below."""
