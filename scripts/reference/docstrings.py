"""A Griffe extension for docstrings in plain words instead of Markdown.

MkDocs finds it as `reference.docstrings` because `mkdocs_hook.py` has imported the package.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe

from .markdown import as_markdown, escaped


class Docstrings(griffe.Extension):
    """Turns docstrings into Markdown.

    Examples become code. `Field(default, description=...)` becomes its default and description.
    A class with the name of its module (`adagrad.py`, `AdaGrad`) also gets the module's
    docstring, which has equations and papers.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
        elif isinstance(obj, griffe.Attribute) and (words := description(obj.value)):
            obj.docstring = griffe.Docstring(escaped(words), parent=obj)
            first = obj.value.arguments[0]
            obj.value = None if isinstance(first, griffe.ExprKeyword) else first  # the default
        if isinstance(obj, griffe.Class) and obj.docstring and is_namesake(obj):
            module = obj.module.docstring
            if module is not None:  # it is Markdown already
                obj.docstring.value = f"{module.value}\n\n{obj.docstring.value}"


def is_namesake(cls: griffe.Class) -> bool:
    """Return whether a class has the name of its module."""
    return cls.name.lower() == cls.module.name.replace("_", "")


def description(value: Any) -> str | None:
    """Return the `description` of a call of `Field`; None for other values."""
    if not isinstance(value, griffe.ExprCall) or value.canonical_path != "pydantic.Field":
        return None
    for argument in value.arguments:
        if isinstance(argument, griffe.ExprKeyword) and argument.name == "description":
            try:
                return str(ast.literal_eval(str(argument.value)))
            except ValueError:  # not a literal
                return None
    return None
