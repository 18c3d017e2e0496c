"""Make one validated configuration from files, environment and command line.

Later layers win: the schema's defaults, the files in the given order, `LEARN__SECTION__KEY`
variables, `--set section.key=value`. Values outside files are YAML 1.2 too. Every mistake is
reported, with its place and the nearest valid name. Texts may refer to environment variables
(`references.py`).
"""

import errno
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from blocklearn.datasources.secrets import hidden_leaves

from ..errors import ConfigError
from .mistakes import explained
from .references import Referring, expand
from .schema_names import suggestion
from .yaml_tree import Node, Origin, merge, nested, parse_file, parse_text

ENV_PREFIX = "LEARN__"
DELIVERED = Path(__file__).parents[2] / "configs"

Schema = TypeVar("Schema", bound=BaseModel)


@dataclass(frozen=True)
class Setting:
    """One value from outside the files.

    Attributes:
        path: the dotted name of the setting.
        text: the value, in YAML unless `literal` is set.
        option: the option or variable that gave the value.
        literal: whether `text` is the value itself (`--out 2024`).
    """

    path: str
    text: str
    option: str
    literal: bool = False

    @classmethod
    def parse(cls, assignment: str) -> "Setting":
        """Return the setting of an assignment such as `model.topics=200`.

        Raises:
            ValueError: there is no `=`, or a part of the name before it is empty.
        """
        path, equals, text = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            raise ValueError(f"{assignment!r} is not of the form section.key=value")
        return cls(path, text, f"--set {path}")


def resolve(
    schema: type[Schema],
    files: Sequence[Path],
    environ: Mapping[str, str],
    settings: Sequence[Setting] = (),
    defaults: Sequence[Setting] = (),
    *,
    upgrade: Callable[[Any], Any] = lambda given: given,
    meanings: Mapping[str, str] | None = None,
    extend: Callable[[Node, Any, list[str]], type[Schema]] | None = None,
) -> Schema:
    """Merge all layers, and validate them by `schema`.

    Args:
        schema: the class of the configuration.
        files: YAML files; later ones win.
        environ: variables; those that begin with `LEARN__` are settings.
        settings: values of the command line, which win over all others.
        defaults: values that files override, for defaults that the schema cannot know.
        upgrade: converts settings of earlier versions before they are validated.
        meanings: values of `${NAME}` in texts; None: `environ`.
        extend: returns a schema with more kinds, for the given tree and its values, which it may
            change; it appends to a list of mistakes. None: `schema` has all of them.

    Raises:
        ConfigError: the configuration has mistakes; one line for each.
        OSError: a file is missing or cannot be read.
    """
    problems: list[str] = []
    layers = [node for path in files if (node := _read(path, problems))]
    variables = {k: v for k, v in sorted(environ.items()) if k.startswith(ENV_PREFIX)}
    layers += _layer(_from_environment(variables), problems)
    layers += _layer(settings, problems)
    root = layers[0] if layers else Node({}, Origin("configuration"), Origin("configuration"))
    tree = Node({}, root.at, root.key)  # a missing section is missing from the first file
    for layer in _layer(defaults, problems) + layers:
        tree = merge(tree, layer)
    given, references = expand(tree, environ if meanings is None else meanings, problems)
    config = _validated(schema, tree, given, problems, upgrade, extend)
    if isinstance(config, Referring):
        config.remember(references)
    return config


def of_values(
    schema: type[Schema],
    values: dict[str, Any],
    source: str,
    extend: Callable[[Node, Any, list[str]], type[Schema]],
) -> Schema:
    """Return the configuration of which another process has the `values_of`.

    source: where the values are from, for messages. extend: see `resolve`.

    Raises ConfigError if they are of another version, or name classes that cannot be loaded here.
    """
    tree = Node.of(values, Origin(source))
    return _validated(schema, tree, values, [], lambda given: given, extend)


def _validated(
    schema: type[Schema],
    tree: Node,
    given: Any,
    problems: list[str],
    upgrade: Callable[[Any], Any],
    extend: Callable[[Node, Any, list[str]], type[Schema]] | None,
) -> Schema:
    """Return the configuration of a tree, whose values are `given`: see `resolve`."""
    if extend is not None and not problems:
        schema = extend(tree, given, problems)
    if problems:
        raise ConfigError(problems)
    try:
        # Validate as strict JSON, which has the types of YAML: "3" and true are not integers, but
        # a list may become a tuple, and a text a path.
        return schema.model_validate_json(json.dumps(upgrade(given)), strict=True)
    except ValidationError as error:
        raise ConfigError(explained(error, tree, schema)) from error


def values_of(config: BaseModel) -> dict[str, Any]:
    """Return what `config` was given, as values for JSON.

    Defaults are left out: settings that the data decide must not look as if they were given.
    """
    return config.model_dump(mode="json", exclude_unset=True)


def to_yaml(config: BaseModel) -> str:
    """Return `config` as YAML with all defaults.

    It reads back to an equal configuration, but secrets that are written out become `***`.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """Writes None as `null`, not as an empty value."""

    null = "tag:yaml.org,2002:null"
    Representer.add_representer(type(None), lambda self, _: self.represent_scalar(null, "null"))
    yaml, text = YAML(), io.StringIO()
    yaml.Representer = Representer
    settings = config.written() if isinstance(config, Referring) else config.model_dump(mode="json")
    yaml.dump(hidden_leaves(settings, references=True), text)
    return text.getvalue()


# ---- layers -------------------------------------------------------------------------------------


def _read(path: Path, problems: list[str]) -> Node | None:
    try:
        return parse_file(path)
    except ConfigError as error:
        problems.extend(error.problems)
        return None
    except IsADirectoryError:
        text = "is a folder; name a configuration file (.yaml)"
        raise IsADirectoryError(errno.EISDIR, text, str(path)) from None
    except FileNotFoundError:
        nearby = path.parent.glob("*.yaml") if path.parent.is_dir() else ()
        hint = suggestion(path.name, [other.name for other in nearby])
        if not hint and (delivered := DELIVERED / path.name).is_file():
            hint = f"; one of this name comes with blocklearn: {delivered}"
        text = f"no such configuration file{hint}"
        raise FileNotFoundError(errno.ENOENT, text, str(path)) from None


def _from_environment(variables: Mapping[str, str]) -> Iterable[Setting]:
    for name, text in variables.items():
        yield Setting(name[len(ENV_PREFIX) :].lower().replace("__", "."), text, name)


def _layer(settings: Iterable[Setting], problems: list[str]) -> list[Node]:
    """Merge settings into one tree; order matters only for the same key."""
    tree: Node | None = None
    for setting in settings:
        origin = Origin(setting.option)
        parts = setting.path.split(".")
        if not all(parts):
            problems.append(f"{origin}: the name has an empty part")
            continue
        try:
            leaf = Node(setting.text, origin, origin)
            if not setting.literal:
                leaf = parse_text(setting.text, origin)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        branch = nested(parts, leaf)
        tree = merge(tree, branch) if tree else branch
    return [tree] if tree else []
