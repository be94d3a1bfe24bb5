# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What the build chooses by the machine that it runs on: the kernel, and the version of the provider's package."""
from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


def suffix(folder: Path, rdma_core: int, base_files: str, os_release: str) -> str:
    file = folder / "os-release"
    file.write_text(os_release)
    done = subprocess.run([TOP / "debian/suffix", str(rdma_core), file, base_files], stdout=subprocess.PIPE,
                          text=True, check=True)
    return done.stdout.strip()


def test_packages_of_later_releases_have_later_versions(tmp_path: Path) -> None:
    rolling = 'NAME="Debian GNU/Linux"\nVERSION_CODENAME=forky\nID=debian\n'
    versions = [
        "0.2",
        "0.2" + suffix(tmp_path, 44, "12.4+deb12u11", 'VERSION_ID="12"\nID=debian\n'),
        "0.2" + suffix(tmp_path, 56, "13.8+deb13u8", 'VERSION_ID="13"\nID=debian\n'),
        "0.2" + suffix(tmp_path, 65, "14.2", rolling),
        "0.2" + suffix(tmp_path, 66, "14.2", rolling),
        "0.2" + suffix(tmp_path, 66, "14.9", 'VERSION_ID="14"\nID=debian\n'),
        "0.2" + suffix(tmp_path, 67, "15", rolling),
        "0.3" + suffix(tmp_path, 44, "12.4+deb12u11", 'VERSION_ID="12"\nID=debian\n'),
    ]
    for earlier, later in pairwise(versions):
        subprocess.run(["dpkg", "--compare-versions", earlier, "lt", later], check=True)


def test_a_version_names_the_distribution(tmp_path: Path) -> None:
    assert suffix(tmp_path, 44, "12.4", 'VERSION_ID="12"\nID=debian\n') == "+deb12"
    assert suffix(tmp_path, 52, "13ubuntu10", 'ID=ubuntu\nVERSION_ID="24.04"\n') == "+ubuntu24.04"
