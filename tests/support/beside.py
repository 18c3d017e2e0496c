"""Where configurations lie: beside the tests, or in the package, of which they are a part."""

from pathlib import Path

import blocklearn

CONFIGS = Path(blocklearn.__file__).parent / "configs"
