"""``python -m tests.surface COMMAND...``: runs it with ``{url}`` as the address of a proxy that is served meanwhile.

``python -m tests.surface schemathesis run docs/openapi.yaml --url {url}``
"""

from __future__ import annotations

import asyncio
import logging
import sys

from tests.surface.served import served


async def main(command: list[str]) -> int:
    """The status of *command*."""
    logging.disable()
    async with served(server={"port": 0}) as url:
        process = await asyncio.create_subprocess_exec(*(word.replace("{url}", url) for word in command))
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
