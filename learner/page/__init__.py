"""A run as one self-contained page of HTML: `learn report`.

| file | idea |
|---|---|
| `report.py` | the page of a run, written to a file |
| `frame.py`, `style.css`, `script.js` | parts of every page; looks, light and dark; the slider |
| `run_sections.py` | scores, speed, time, memory, settings |
| `model_sections.py` | factors, targets |
| `topic_sections.py`, `topic_map.py` | topics: their map, and a card for each |

Charts and elements are in `drawing/`.
"""

from .report import write_report as write_report
