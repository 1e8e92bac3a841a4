# ruff: noqa: INP001 -- a script, no package
"""The application of docker-compose.yml: asks the first model that is listed, and prints the answer as it arrives.

Standard library only, so that it runs in a plain Python image; a real application would use an SDK.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import IO, Any


def ask(path: str, body: dict[str, Any] | None = None) -> IO[bytes]:
    """The answer to a GET, or to a POST of *body*, on the server that ``OPENAI_BASE_URL`` names."""
    key = Path(os.environ["OPENAI_API_KEY_FILE"]).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(  # noqa: S310 -- the URL is the operator's
        os.environ["OPENAI_BASE_URL"] + path,
        data=json.dumps(body).encode() if body else None,
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    answer: IO[bytes] = urllib.request.urlopen(request)  # noqa: S310 -- as above
    return answer


def main(question: str) -> None:
    """Ask *question*."""
    with ask("/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    messages = [{"role": "user", "content": question}]
    with ask("/chat/completions", {"model": model, "messages": messages, "stream": True}) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                event = json.loads(line.removeprefix(b"data: "))
                if "error" in event:
                    raise SystemExit(event["error"]["message"])
                for choice in event["choices"]:
                    sys.stdout.write(choice["delta"].get("content", ""))
                    sys.stdout.flush()
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
