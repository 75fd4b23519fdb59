"""`module:attribute`: what each mistake is told."""

from pathlib import Path

import pytest

from tickstream.errors import InvalidInput
from tickstream.worker import load_app


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_app_of_the_working_directory_is_found(workdir: Path) -> None:
    (workdir / "loader_good.py").write_text(
        "from tickstream.worker import App\napp = App()\n@app.handler()\ndef hi(ctx): ...\n"
    )
    assert list(load_app("loader_good:app").handlers) == ["hi"]


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("loader_bad", "write module:attribute"),
        (":app", "write module:attribute"),
        ("loader_missing:app", "there is no module 'loader_missing'"),
        ("loader_missing.sub:app", "there is no module"),
        ("loader_needy:app", "importing loader_needy failed: No module named 'nowhere_to_be_found'"),
        ("loader_broken:app", "importing loader_broken failed: ZeroDivisionError"),
        ("loader_other:nope", "has no 'nope'; did you mean loader_other:application"),
        ("loader_other:number", "is a int, not an App; did you mean loader_other:application"),
    ],
)
def test_every_mistake_is_told_apart(workdir: Path, reference: str, says: str) -> None:
    (workdir / "loader_needy.py").write_text("import nowhere_to_be_found\n")
    (workdir / "loader_broken.py").write_text("1 / 0\n")
    (workdir / "loader_other.py").write_text(
        "from tickstream.worker import App\napplication = App()\nnumber = 1\n"
    )
    with pytest.raises(InvalidInput, match=says):
        load_app(reference)
