"""A run as one self-contained page of HTML: `learn report`.

| file | idea |
|---|---|
| `report.py` | the page of a run, written to a file |
| `frame.py`, `style.css` | the parts of every page; their looks, light and dark |
| `run_sections.py` | scores, speed, time, memory, settings |
| `model_sections.py` | topics, factors, targets |
| `charts.py` | curves, shares of time, bars |
| `markup.py` | elements with their text escaped |
"""

from .report import write_report as write_report
