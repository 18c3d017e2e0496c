"""Imports point one way: between the folders, and between the rooms of each folder."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = {
    "matcache": 0, "datasources": 1, "mixins": 1, "optimizers": 1, "models": 2, "learner": 3,
}  # fmt: skip
"""The floor of each folder: imports point to lower floors only."""

ROOMS = {
    "matcache": (
        "errors threads finite notation program containers emit operations cpu merge cuda devices"
    ),
    "datasources": (
        "errors secrets remote separators listing arrays ids block source read_ahead reader memory"
        " holdout sampling weighting data_kind blocks tables packed parsing text ratings given"
        " examples parquet formats hugectr config"
    ),
    "matcache/cpu": (
        "pool processors compiling inline algebra fitting kernels topics addresses runners executor"
        " launches backend"
    ),
    "models": (
        "errors score states inputs split_terms scaled_rows block_size undecided earlier"
        " matrices base loss_model factor_model link_model coherence"
        " relevance topic_quality term_weights als components glm fm kmeans mixture lda nmf"
        " pagerank ranking svd triangles word_vectors ranking_metrics"
    ),
    "optimizers": (
        "errors schedules flow line_search updates terms base linear_loss resting managed row"
        " rule row_programs by_row gradient pass_sums full_pass estimates adagrad adam"
        " conjugate_gradient ftrl inc_norm lbfgs rmsprop sgd sgld streaming_average"
        " telescoping dual_programs dual_ascent"
    ),
    "learner": (
        "errors terminal exit_codes figures memory drawing files engines storage training"
        " showing configuration learner results"
        " checking recommendation choosing installation conversion watch runs reports serving"
        " inspection evidence page starting command_line estimators"
    ),
    "models/glm": (
        "columns links targets target_ranges label_counts rows scoring model sums solvers"
    ),
    "learner/training": (
        "settings inputs replicas teams states plans topics predicting scoring divergence meter"
        " loop model_in_use at_hand further_rows"
    ),
    "learner/estimators": (
        "scikit validation transformer parameters constraints constructor told_passes callbacks"
        " kept base row_weights parts dense_scores sparse_scores"
        " linear recommenders unsupervised graphs"
    ),
}  # fmt: skip
"""The rooms of a folder, each above those before it. `learner` is learner.py with hooks.py and
checkpoints: each needs the others."""

SHARED = {"learner": {"hooks": "learner", "checkpoints": "learner"}}
"""Files and folders that are one room with another file."""


FOLDERS_OF_THE_PACKAGE = tuple(f"blocklearn.{folder}" for folder in FOLDERS)


@cache
def statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import in `path`, also type-only ones and in functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path, root: Path = ROOT) -> list[tuple[int, str]]:
    """Line and absolute module of every import in `path`."""
    here = ["blocklearn", *path.relative_to(root).with_suffix("").parts]
    found = []
    for node in statements(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        else:
            base = here[: len(here) - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_between_folders_point_down(folder: str) -> None:
    climbing = []
    for path in sources(folder):
        for line, module in imports(path):
            other = (module.split(".") + [""])[1] if module.startswith("blocklearn.") else folder
            if other != folder and other in FOLDERS and FOLDERS[other] >= FOLDERS[folder]:
                climbing.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert climbing == []


def holds_python(path: Path) -> bool:
    """Whether it is a room: a folder that only has caches was left by an earlier layout."""
    return path.is_dir() and (any(path.rglob("*.py")) or not any(path.iterdir()))


def rooms_of(folder: str, root: Path) -> dict[str, int]:
    """Floor of each room; a room that the table does not know fails the test."""
    order = {room: floor for floor, room in enumerate(ROOMS[folder].split())}
    order |= {file: order[room] for file, room in SHARED.get(folder, {}).items()}
    found = {p.stem for p in (root / folder).iterdir() if p.suffix == ".py" or holds_python(p)}
    assert found - {"__init__", "__pycache__"} == set(order), "ROOMS and the folder differ"
    return order


def climbing_between_rooms(folder: str, root: Path = ROOT) -> list[str]:
    """Imports of a room from one that is not below it, type-only and in-function ones included."""
    order, above = rooms_of(folder, root), ["blocklearn", *folder.split("/")]
    climbing = []
    for path in sorted((root / folder).rglob("*.py")):
        own = path.relative_to(root / folder).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for line, module in imports(path, root):
            parts, depth = module.split("."), len(above)
            other = parts[depth] if parts[:depth] == above and len(parts) > depth else own
            if other in order and other != own and order[other] > order[own]:
                climbing.append(f"{path.relative_to(root)}:{line} imports {module}")
    return climbing


@pytest.mark.parametrize("folder", ROOMS)
def test_imports_between_rooms_point_down(folder: str) -> None:
    assert climbing_between_rooms(folder) == []


@pytest.mark.parametrize("planted", ["from ..cpu import pool", "import blocklearn.matcache.cuda"])
def test_a_planted_upward_import_is_found(planted: str, tmp_path: Path) -> None:
    copy = tmp_path / "matcache"
    for room in ROOMS["matcache"].split():
        (copy / room).mkdir(parents=True)
    (copy / "__init__.py").touch()
    (copy / "emit" / "fine.py").write_text("from ..program import schedule\n")
    assert climbing_between_rooms("matcache", tmp_path) == []
    text = f"def late() -> None:\n    {planted}\n"
    (copy / "emit" / "upward.py").write_text(text)
    found = climbing_between_rooms("matcache", tmp_path)
    assert len(found) == 1 and found[0].startswith("matcache/emit/upward.py:2 imports")


@pytest.mark.parametrize("folder, most", [("matcache", 6), ("datasources", 12), ("learner", 8)])
def test_the_root_of_a_folder_holds_what_a_newcomer_opens_first(folder: str, most: int) -> None:
    assert len(list((ROOT / folder).glob("*.py"))) <= most


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_long_file_says_why_it_is_one_file(folder: str) -> None:
    for path in sources(folder):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 300:
            assert "Longer than 300 lines: " in (ast.get_docstring(ast.parse(text)) or ""), path


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_are_relative_within_a_folder_and_absolute_between_folders(folder: str) -> None:
    wrong = []
    for path in sources(folder):
        depth = len(path.relative_to(ROOT / folder).parts)
        for node in statements(path):
            if isinstance(node, ast.Import):
                continue
            own = (node.module or "").startswith(f"blocklearn.{folder}")
            if (node.level == 0 and own) or node.level > depth:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []


@pytest.mark.parametrize("name", "answers card closing durable exports fields synonyms".split())
def test_what_all_folders_may_import_imports_none_of_them(name: str) -> None:
    found = imports(ROOT / "blocklearn" / f"{name}.py")
    assert not [module for _, module in found if module.startswith(FOLDERS_OF_THE_PACKAGE)]
