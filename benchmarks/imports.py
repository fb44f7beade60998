"""How long `import labkit` takes beside `import cupy`: fresh interpreters, interleaved. Target: at most 0.3."""

from __future__ import annotations

import statistics
import subprocess
import sys

CODE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def seconds(module: str) -> float:
    """Seconds that a fresh interpreter takes to import `module`."""
    command = [sys.executable, "-c", CODE.format(module)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(repeats: int = 15) -> None:
    """Print the medians and the ratio with its quartiles."""
    pairs = [(seconds("labkit"), seconds("cupy")) for _ in range(repeats)]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    low, middle, high = ratios[repeats // 4], statistics.median(ratios), ratios[3 * repeats // 4]
    print(f"labkit {1e3 * ours:.1f} ms, cupy {1e3 * theirs:.1f} ms: ratio {middle:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
