"""Reference pages that are made from the code say all of it; and the site has every page."""

from __future__ import annotations

import doctest
import inspect
import pydoc
import re
from pathlib import Path
from types import ModuleType

import pytest
import typer
from ruamel.yaml import YAML

import blocklearn
from blocklearn.learner.command_line.cli import app
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.mixins import MIXINS
from blocklearn.models import MODELS
from blocklearn.optimizers import OPTIMIZERS
from scripts.reference import configuration, markdown, names
from scripts.reference.api import api_page, public_names
from scripts.reference.command_line import command_line_page
from scripts.reference.configuration import configuration_page

ROOT = Path(__file__).parents[2]
SITE = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text())
PAGES = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
INSERTED = re.compile(r"<!-- insert ([^>]*) -->")


def pages_of(entry: object) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, dict):
        return [page for part in entry.values() for page in pages_of(part)]
    if isinstance(entry, list):
        return [page for part in entry for page in pages_of(part)]
    return [str(entry)]


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(pages_of(SITE["nav"])) == sorted(PAGES)


def test_every_key_of_a_configuration_is_described() -> None:
    page = configuration_page()
    schema = RunConfig.model_json_schema()
    sections = dict(re.findall(r"^##+ [^\n]*\{#(\w+)\}\n(.*?)(?=^##|\Z)", page, re.M | re.S))
    assert sections.keys() == schema["$defs"].keys()
    for name, definition in schema["$defs"].items():
        keys = re.findall(r"^\| `(\w+)` \|", sections[name], re.M)
        assert keys == list(definition["properties"]), name
        for field in definition["properties"].values():
            assert markdown.cell(markdown.escaped(field.get("description", ""))) in sections[name]
    whole = page[: page.index("{#")]
    assert all(f"| `{key}` |" in whole for key in schema["properties"])
    for kind in [*MODELS, *OPTIMIZERS, *MIXINS]:
        assert re.search(rf"^### \w+: {kind} ", page, re.M), kind
    assert "    G <- G + g^2,     w <- w - rate g" in sections["AdaGrad"]  # as in adagrad.py
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= sections.keys()


def test_every_command_and_option_is_described() -> None:
    page = command_line_page()
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        section = page.split(f"## learn {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert re.search(rf"[`, ]{option}[`, ]", section) or option == "--help", option


def test_public_names_are_described() -> None:
    """Whatever can be imported from a package, but for its subpackages."""
    if not (ROOT / "models").exists():
        pytest.skip("the tests of an installed wheel: pages are made from the sources")
    directives = "".join(
        api_page(*arguments.split()[1:])
        for page in PAGES
        for arguments in INSERTED.findall((ROOT / "docs" / page).read_text())
        if arguments.startswith("api")
    )
    named = set(re.findall(r"^::: (\S+)$", directives, re.M))
    assert {f"blocklearn.{n}" for n in blocklearn.__all__ if n not in blocklearn._MODULES} <= {
        name.replace("learner.estimators.", "") for name in named
    }
    for package in ("models", "optimizers", "mixins", "datasources", "matcache"):
        module = getattr(blocklearn, package)
        for name in module.__all__:
            public = re.search(rf" as {name}$", Path(module.__file__).read_text(), re.M)
            assert not public or f"blocklearn.{package}.{name}" in named, (package, name)


def test_members_that_a_learner_inherits_are_described() -> None:
    """Where the site leaves them out, `predict` has no description."""
    described = api_page().partition("::: blocklearn.Learner\n")[2].partition(":::")[0]
    inherits = "predict" not in vars(blocklearn.Learner)
    assert inherits == ("inherited_members: true" in described)


def test_settings_that_a_model_inherits_are_described() -> None:
    """Of a base that has a name of its own, the site describes the members there."""
    models = blocklearn.models
    for name in models.__all__:
        kind = getattr(models, name)
        if isinstance(kind, type) and issubclass(kind, models.Model):
            bases = [base for base in kind.__mro__[1:] if issubclass(base, models.Model)]
            hidden = [base for base in bases if base.__name__ not in models.__all__]
            fields = [field for base in hidden for field in vars(base).get("__annotations__", ())]
            described = api_page("models").partition(f".{name}\n")[2].partition(":::")[0]
            assert ("kind" in fields) == ("inherited_members: true" in described), name


def test_tables_of_names_are_up_to_date() -> None:
    if not (ROOT / "models").exists():
        pytest.skip("the tests of an installed wheel: pages are made from the sources")
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        text = page.read_text()
        assert names.filled(text) == text, "run: .venv/bin/python -m scripts.reference.names"


@pytest.mark.parametrize("package", ["models", "optimizers", "mixins", "datasources", "matcache"])
def test_names_of_packages_are_listed_without_a_build(package: str) -> None:
    """In the page itself, in `__all__`, and so in `help`."""
    if not (ROOT / "models").exists():
        pytest.skip("the tests of an installed wheel: pages are made from the sources")
    page = (ROOT / "docs" / "reference" / f"{package}.md").read_text()
    module, listed = getattr(blocklearn, package), set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    assert listed == set(public_names(package)) <= set(module.__all__)
    assert not [n for n in module.__all__ if isinstance(getattr(module, n), ModuleType)]
    helped = pydoc.plain(pydoc.render_doc(module))
    functions = [n for n in listed if inspect.isfunction(getattr(module, n))]
    assert not [n for n in functions if not re.search(rf"^    {n}\(", helped, re.M)]
    assert not re.findall(r"^\| `(\w+)` \|\s*\|$", page, re.M), "without a docstring"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_pages_insert_what_exists(page: str) -> None:
    known = {"configuration", "command-line", "api"}
    text = (ROOT / "docs" / page).read_text()
    assert {arguments.split()[0] for arguments in INSERTED.findall(text)} <= known


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_outside_the_site(page: str) -> None:
    """MkDocs checks those of the site."""
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        assert "://" in link or (ROOT / link).exists(), link


@pytest.mark.parametrize("module", [configuration, markdown])
def test_examples_in_docstrings(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
