"""``python -m svir_proxy`` is ``svir-proxy``."""

import sys

from svir_proxy.cli import main

if __name__ == "__main__":
    sys.exit(main())
