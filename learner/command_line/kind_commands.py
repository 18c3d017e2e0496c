"""`learn kinds`: what configurations can name.

Nothing heavy is imported before it runs.
"""

from ..terminal import show_lines


def kinds() -> None:
    """List the kinds of models, optimizers, mixins and data.

    Those of installed packages come after the built-in ones. Their code is not imported.
    """
    from ..configuration.kind_list import kind_lines

    show_lines(kind_lines())
