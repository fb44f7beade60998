"""Print the pip extra with the CuPy build for this machine's driver: [cuda13], [cuda12], or nothing."""

from __future__ import annotations

import re
import shutil
import subprocess


def extra() -> str:
    """ "[cuda13]" or "[cuda12]" by what `nvidia-smi` says the driver supports; "" without one."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    answer = subprocess.run([command], capture_output=True, text=True, check=False).stdout
    version = re.search(r"CUDA (?:UMD )?Version:\s*(\d+)", answer)
    if version is None or int(version.group(1)) < 12:
        return ""
    return "[cuda13]" if int(version.group(1)) >= 13 else "[cuda12]"


if __name__ == "__main__":
    print(extra(), end="")
