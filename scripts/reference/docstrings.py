"""An extension of Griffe for how docstrings are written here: plain words, not Markdown.

MkDocs finds it as `reference.docstrings` because `mkdocs_hook.py` has imported the package.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe

from .markdown import as_markdown, escaped


class Docstrings(griffe.Extension):
    """Examples become code, and of `Field(default, description=...)` the two are shown. A class
    that its module is named after (`adagrad.py`, `AdaGrad`) has the words of the module, too: its
    equations and papers.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of whatever was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
        elif isinstance(obj, griffe.Attribute) and (words := description(obj.value)):
            obj.docstring = griffe.Docstring(escaped(words), parent=obj)
            first = obj.value.arguments[0]
            obj.value = None if isinstance(first, griffe.ExprKeyword) else first  # the default
        if isinstance(obj, griffe.Class) and obj.docstring and is_namesake(obj):
            module = obj.module.docstring
            if module is not None:  # it has been changed already
                obj.docstring.value = f"{module.value}\n\n{obj.docstring.value}"


def is_namesake(cls: griffe.Class) -> bool:
    """Whether the module that a class is in is named after it."""
    return cls.name.lower() == cls.module.name.replace("_", "")


def description(value: Any) -> str | None:
    """The `description` of a call of `Field`, if it is one."""
    if not isinstance(value, griffe.ExprCall) or value.canonical_path != "pydantic.Field":
        return None
    for argument in value.arguments:
        if isinstance(argument, griffe.ExprKeyword) and argument.name == "description":
            try:
                return str(ast.literal_eval(str(argument.value)))
            except ValueError:  # not plain text
                return None
    return None
