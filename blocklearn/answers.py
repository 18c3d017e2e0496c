"""Answer unknown parameters with the names that are meant.

Constructors, functions and the fields of models give the same answers. Imports only the table of
words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from .synonyms import meant, nearest, spelled_alike

P = ParamSpec("P")
R = TypeVar("R")

TRAINING = {
    "blocklearn.Learner(model, train=(X, Y))": "targets",
    "blocklearn.Learner(model, train=(X, Y, weights))": "weights",
    "blocklearn.Learner({}=...)": (
        "passes block_rows threads seed eval train hooks optimizer mixins device replicas tables"
        " evaluation verbose row_folder checkpoint every_blocks"
    ),
    "optimizer=blocklearn.optimizers.SGD({}=...)": "rate schedule momentum clip_global_norm",
    "evaluation=blocklearn.Evaluation({}=...)": "metric patience every_passes",
}
"""Where parameters of any training are given, and their names."""

MODELS = {
    "blocklearn.models.LDA({}=...)": "topics alpha eta inference seeds",
    "blocklearn.models.ALS({}=...)": "rank reg loss solver",
    "blocklearn.models.NMF({}=...)": "components",
    "blocklearn.models.GLM({}=...)": "link targets intercept class_weight l1 l2",
    "blocklearn.models.KMeans({}=...)": "clusters spherical",
    "blocklearn.models.FM({}=...)": "factors",
    "blocklearn.models.SVD({}=...)": "center oversampling",
    "blocklearn.models.GaussianMixture({}=...)": "covariance reg_covar",
    "blocklearn.models.PageRank({}=...)": "damping",
    "blocklearn.models.WordVectors({}=...)": "dimensions window",
}
"""Where parameters of single models are given, and their names."""

METHODS = {
    "blocklearn.save(learner, FOLDER)": "save dump export",
    "blocklearn.load(FOLDER)": "load from_pretrained",
    "blocklearn.recommend(learner, USERS)": "recommend recommend_all",
    "blocklearn.similar_items(learner, ITEMS)": "similar_items similar most_similar",
    "learner.predict(X)": "transform predict_proba infer inference get_document_topics forward",
    "learner.evaluate(X)": "score test validate perplexity log_perplexity bound",
    "learner.fit(X)": "partial_fit update train_on fit_transform learn",
    "learner.topics()": "show_topics print_topics show_topic get_topics describeTopics components_",
    "learner.parameter(NAME)": "coef_ intercept_ weights parameters state_dict item_factors",
    "learner.row_state('users')": "user_factors",
    "learner.history.plot()": "plot plot_history",
}
"""What other libraries call methods and attributes of a model, and what does this here."""

NOTES = {"c": "It is 1 / (C * rows)."}
"""What a word of another library says in other numbers."""

SHOWN = 60  # characters of a value in a message


def answer(name: str, names: Iterable[str]) -> str:
    """Return a sentence that says which parameter is meant by the unknown `name`.

    names: the parameters that exist here. Others are found where they belong.

    >>> answer("epochs", ["passes", "seed"])
    'did you mean passes?'
    >>> answer("n_jobs", ["topics"])
    'did you mean blocklearn.Learner(threads=...)?'
    >>> answer("zzz", ["topics", "alpha"])
    'the parameters are topics, alpha'
    """
    own = list(names)
    found = meant(name, own) or _place(name, TRAINING) or nearest(name, own) or _place(name, MODELS)
    if found is None:
        return f"the parameters are {', '.join(own)}" if own else "there are no parameters"
    note = NOTES.get(spelled_alike(name))
    return f"did you mean {found}? {note}" if note else f"did you mean {found}?"


def _place(name: str, places: Mapping[str, str]) -> str | None:
    """Return where a parameter that means `name` is given; None: in no place."""
    for place, names in places.items():
        found = meant(name, names.split())
        if found is not None:
            return place.format(found)
    return None


def no_attribute(owner: str, name: str) -> str:
    """Return the message about a method or attribute that does not exist.

    >>> no_attribute("Learner", "save")
    "'Learner' object has no attribute 'save'; did you mean blocklearn.save(learner, FOLDER)?"
    """
    told = f"{owner!r} object has no attribute {name!r}"
    found = next((here for here, names in METHODS.items() if name in names.split()), None)
    return told if found is None else f"{told}; did you mean {found}?"


def unknown(owner: str, name: str, value: object, names: Iterable[str]) -> str:
    """Return the message about an unknown parameter of `owner`."""
    return f"{owner}: {name}={shown(value)}: unknown parameter; {answer(name, names)}"


def shown(value: object) -> str:
    """Return a value as a message shows it: numbers and short texts, else its type.

    >>> shown(0.5), shown("adam"), shown(list(range(100)))
    ('0.5', "'adam'", '<list>')
    """
    text = repr(value) if isinstance(value, int | float | str | list | tuple | dict | None) else ""
    if isinstance(value, str) and len(text) > SHOWN:
        return f"{text[: SHOWN - 3]}..."
    return text if text and len(text) <= SHOWN and "\n" not in text else f"<{type(value).__name__}>"


def answered(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that answers an unknown parameter with the one that is meant.

    >>> @answered
    ... def train(*, passes: int = 1) -> None: ...
    >>> train(epochs=3)
    Traceback (most recent call last):
    TypeError: train: epochs=3: unknown parameter; did you mean passes?
    """
    parameters = list(signature(function).parameters)
    names = [name for name in parameters if name != "self"]

    @wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        for name, value in given.items():
            if name not in names:
                owner = function.__qualname__
                if names != parameters:  # a method: name the class of the object
                    owner = f"{type(args[0]).__name__}.{function.__name__}"
                owner = owner.removesuffix(".__init__")
                raise TypeError(unknown(owner, name, value, names))
        return function(*args, **given)

    return checked
