"""What the README shows is what the repository holds."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_hello_application_is_the_example() -> None:
    example = (ROOT / "examples" / "hello.py").read_text()
    code = example.split('"""\n', 1)[1].lstrip("\n")
    assert code in (block.lstrip("\n") for block in BLOCKS)


def test_every_file_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
