"""From `module:attribute` on a command line to the App it names.

Nothing else may import a user's code.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from tickstream.errors import InvalidInput
from tickstream.worker.app import App


def load_app(reference: str) -> App:
    """The App that `reference` (`module:attribute`) names; the working directory is importable.

    Raises InvalidInput, saying whether the reference, the module, its import or the attribute is wrong.
    """
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidInput(f"{reference!r}: write module:attribute, for example examples.hello:app")
    module = _import(module_name)
    if not hasattr(module, attribute):
        raise InvalidInput(f"module {module_name} has no {attribute!r}{_hint(module)}")
    app = getattr(module, attribute)
    if not isinstance(app, App):
        raise InvalidInput(f"{reference} is a {type(app).__name__}, not an App{_hint(module)}")
    return app


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only when the module itself is missing; what it imports in turn is the next case.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidInput(
                f"there is no module {name!r} in {here} or among the installed ones"
            ) from error
        raise InvalidInput(f"importing {name} failed: {error}") from error
    except Exception as error:
        raise InvalidInput(f"importing {name} failed: {type(error).__name__}: {error}") from error


def _hint(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    return f"; did you mean {module.__name__}:{apps[0]}?" if apps else ""
