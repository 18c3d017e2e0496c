"""A run as one page of HTML that needs nothing else: `learn report`.

| file | idea |
|---|---|
| `report.py` | the page of a run, written to a file |
| `frame.py`, `style.css` | what every page has; how it looks, by day and by night |
| `run_sections.py` | scores, speed, time, memory, settings |
| `model_sections.py` | topics, factors, targets |
| `line_chart.py`, `strips.py`, `bars.py` | curves; shares of time; quantities by name |
| `ticks.py`, `markup.py` | numbers on axes; elements with their text escaped |
"""

from .report import write_report as write_report
