"""CI's plugin against skips, seen from outside: what a run with it counts."""

import pytest

from tests import no_skips

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def only_this_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_a_skip_fails_and_says_which_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\ndef test(): pytest.skip('no browser here')")
    result = pytester.runpytest_inprocess(plugins=[no_skips])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*this run forbids skips: no browser here"])


def test_a_skipped_module_stops_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\npytest.importorskip('a_module_that_is_not_there')")
    result = pytester.runpytest_inprocess(plugins=[no_skips])
    result.assert_outcomes(errors=1)


def test_containers_may_be_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\ndef test(): pytest.skip('testcontainers: no engine')")
    result = pytester.runpytest_inprocess(plugins=[no_skips])
    result.assert_outcomes(skipped=1)


def test_an_expected_failure_is_no_skip(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.xfail\ndef test(): assert False")
    result = pytester.runpytest_inprocess(plugins=[no_skips])
    result.assert_outcomes(xfailed=1)
