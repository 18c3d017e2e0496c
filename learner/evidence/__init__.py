"""What data say about a trained model, for reports.

| file | idea |
|---|---|
| `opened.py` | the data of a run, opened again, and the rows of them that are read |
| `documents.py` | typical documents of topics, coherence by topic, topics over time |
| `score_bins.py`, `targets.py` | curves of held-out scores of linear models |
| `ratings.py` | errors of factors by popularity; lists of some users |

Memory does not grow with the number of rows, and every figure says how many it comes from.
"""
