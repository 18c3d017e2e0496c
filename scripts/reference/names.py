"""Write the names of packages, with the first lines of their docstrings, into reference pages.

    python -m scripts.reference.names

A page has a table between the marks `<!-- names PACKAGE -->` and `<!-- end of names -->`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .api import ROOT, public_names
from .markdown import code, escaped, table

MARK = re.compile(r"(<!-- names (\w+) -->\n).*?(<!-- end of names -->)", re.S)
FOLDERS = ("datasources", "matcache", "mixins", "models", "optimizers")
PAGES = ROOT / "docs" / "reference"


def names_table(package: str) -> str:
    """Return tables of functions, and of classes and types, by name.

    package: `blocklearn` stands for what it exports beside its packages.
    """
    own = package == "blocklearn"
    file = ROOT.joinpath("blocklearn", *() if own else (package,), "__init__.py")
    names = public_names("" if own else package)
    found = {name: summary(file, name) for name in names}
    rows = {name: (code(name), escaped(text)) for name, text in found.items()}
    if own:
        rows = {name: row for name, row in rows.items() if name not in FOLDERS}
    functions = [rows[name] for name in sorted(rows) if name.islower()]
    others = [rows[name] for name in sorted(rows, key=str.lower) if not name.islower()]
    parts = (("function", functions), ("class, type or table", others))
    return "\n".join(table((head, "what it does"), found) for head, found in parts if found)


def summary(file: Path, name: str) -> str:
    """Return the first line of the docstring of a name that a file defines or imports."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    body += [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    for place, node in enumerate(body):
        match node:
            case ast.FunctionDef() | ast.ClassDef() if node.name == name and ast.get_docstring(
                node
            ):
                return _first_line(ast.get_docstring(node) or "")
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                return _first_line(_after(body, place))
            case ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return _first_line(_after(body, place))
            case ast.ImportFrom() if any((a.asname or a.name) == name for a in node.names):
                original = next(a.name for a in node.names if (a.asname or a.name) == name)
                return summary(_file_of(node, file), original)
    return ""


def _after(body: list[ast.stmt], place: int) -> str:
    """Return the text that follows an assignment."""
    match body[place + 1 : place + 2]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return text
    return ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].partition(": see `")[0].rstrip(".:")


def _file_of(node: ast.ImportFrom, importer: Path) -> Path:
    """Return the file that a relative or absolute import names."""
    parts = (node.module or "").split(".")
    folder = ROOT
    if node.level:
        folder = importer.parents[node.level - 1]
    path = folder.joinpath(*parts)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def filled(text: str) -> str:
    """Return a page with its tables as they should be."""
    return MARK.sub(lambda mark: f"{mark[1]}\n{names_table(mark[2])}\n{mark[3]}", text)


def main() -> None:
    """Rewrite the pages."""
    for page in PAGES.glob("*.md"):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
