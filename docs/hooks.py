"""What the pages need to become a site: links that leave `docs/` do not work there."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:tests|src|benchmarks)/[^)]*|[A-Z]+(?:\.md)?)\)")


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Links to tests and sources go to the repository, where the site has one (`repo_url`); else their text stays."""
    repository = config["repo_url"]
    return _OUTSIDE.sub(rf"[\1]({repository.rstrip('/')}/blob/main/\2)" if repository else r"\1", markdown)
