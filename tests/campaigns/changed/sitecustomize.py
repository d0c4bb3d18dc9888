"""Import one module from other text: for `code_mutation.py`, which puts this folder on the path.

An interpreter imports a module of this name when it starts, also one that a test starts.
"""

import importlib.abc
import importlib.util
import json
import os
import sys
from pathlib import Path


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the module that the file named by PLANGUARD_MUTANT is about."""

    def __init__(self, file):
        self.module, self.source, self.file = json.loads(file.read_text())

    def find_spec(self, name, path=None, target=None):
        """Return where a module comes from if it is the changed one."""
        if name != self.module:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self.file)

    def get_source(self, fullname):
        """Return the changed text."""
        return self.source

    def exec_module(self, module):
        """Run the changed text."""
        module.__file__ = self.file
        exec(compile(self.source, self.file, "exec"), module.__dict__)  # noqa: S102


sys.meta_path.insert(0, Changed(Path(os.environ["PLANGUARD_MUTANT"])))
