"""A run as one self-contained page of HTML: `learn report`.

| file | idea |
|---|---|
| `report.py` | the page of a run, written to a file |
| `frame.py`, `style.css`, `script.js` | parts of every page; looks, light and dark; the slider |
| `run_sections.py` | scores, speed, time, memory, settings |
| `against.py` | comparison with an earlier run |
| `model_sections.py` | the sections of each kind of model |
| `topic_sections.py`, `topic_map.py` | topics: their map, a card for each, coherence, time |
| `factor_sections.py` | factors: popularity, errors, lists of some users |
| `target_sections.py` | targets: figures, held-out curves, weights, paths |
| `card_sections.py` | a card for each cluster, and for each direction of an SVD |

Charts and elements are in `drawing/`.
"""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .report import write_report as write_report
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
