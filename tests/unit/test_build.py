# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What the build chooses by the machine that it runs on: the kernel, and the version of the provider's package."""
from __future__ import annotations

import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

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


def headers(root: Path, running: str, *installed: str, **environment: str) -> str:
    """The release whose headers make builds for, where these are installed; "(...)" for links to none."""
    for name in installed:
        build = root / "lib/modules" / name.strip("()") / "build"
        build.parent.mkdir(parents=True)
        if name.startswith("("):
            build.symlink_to("/nonexistent")
        else:
            (build / "include/config").mkdir(parents=True)
            (build / "include/config/kernel.release").write_text(name + "\n")
    clean = {name: value for name, value in os.environ.items() if name not in ("KDIR", "FOR_GUESTS", "MAKEFLAGS")}
    done = subprocess.run(["make", "-s", "-C", TOP, "help"], stdout=subprocess.PIPE, text=True, check=True,
                          env={**clean, "ROOT": str(root), "RUNNING": running, **environment})
    chosen = re.search(r"KDIR=DIR .*\[(.*)\]", done.stdout)
    assert chosen
    return chosen[1].removeprefix(f"{root}/lib/modules/").removesuffix("/build")


@pytest.mark.parametrize("running, installed, chosen", [
    # Debian 12: its own kernel is too old, also when it runs.
    ("6.1.0-40-amd64", "6.1.0-40-amd64 6.12.9+deb12-amd64 6.12.117+deb12-amd64", "6.12.117+deb12-amd64"),
    ("6.1.0-40-amd64", "6.1.0-40-amd64", ""),
    # The running kernel goes before newer ones, of any flavour.
    ("6.12.9+deb12-amd64", "6.12.9+deb12-amd64 6.12.117+deb12-amd64 7.3.4+deb13-amd64", "6.12.9+deb12-amd64"),
    ("7.3.4+deb13-cloud-amd64", "6.12.117+deb13-amd64 7.3.4+deb13-cloud-amd64", "7.3.4+deb13-cloud-amd64"),
    # sid: no 6.12 at all.
    ("7.2.13+deb14-amd64", "7.2.13+deb14-amd64", "7.2.13+deb14-amd64"),
    # It has no headers, or they are gone: the newest, in the plain flavour.
    ("7.3.4+deb13-amd64", "6.12.9+deb13-amd64 6.12.117+deb13-amd64 6.12.118+deb13-rt-amd64", "6.12.117+deb13-amd64"),
    ("7.3.4+deb13-amd64", "6.12.9+deb13-amd64 (7.3.4+deb13-amd64)", "6.12.9+deb13-amd64"),
    ("6.18.44-fc", "6.12.118+deb13-rt-amd64", "6.12.118+deb13-rt-amd64"),
    ("7.2.13", "7.2.9 10.0.1 6.120.1", "10.0.1"),
])
def test_make_builds_for_the_running_kernel(tmp_path: Path, running: str, installed: str, chosen: str) -> None:
    assert headers(tmp_path, running, *installed.split()) == chosen


def test_the_scripts_build_for_what_guests_boot(tmp_path: Path) -> None:
    installed = ["6.12.9+deb12-amd64", "6.12.117+deb12-amd64", "7.3.4+deb13-amd64"]
    assert headers(tmp_path, installed[2], *installed, FOR_GUESTS="1") == installed[1]
    assert headers(tmp_path, installed[0], FOR_GUESTS="1") == installed[1]


def test_whoever_names_headers_gets_them(tmp_path: Path) -> None:
    assert headers(tmp_path, "6.12.9", "6.12.9", KDIR="/elsewhere") == "/elsewhere"


@pytest.mark.parametrize("destination, folder", [("stage", "{here}/stage"), ("./a/../b", "{here}/b"),
                                                 ("/tmp/x", "/tmp/x"), ("", "")])
def test_a_relative_destdir_is_below_this_folder(tmp_path: Path, destination: str, folder: str) -> None:
    (tmp_path / "headers/include/config").mkdir(parents=True)
    (tmp_path / "headers/include/config/kernel.release").write_text("6.12.9\n")
    (tmp_path / "headers/Makefile").write_text("modules_install:\n\t@echo 'to [$(INSTALL_MOD_PATH)]'\n")
    done = subprocess.run(["make", "-f", TOP / "Makefile", "-o", "module", "install-module", "depmod=true",
                           f"KDIR={tmp_path}/headers", f"DESTDIR={destination}"], cwd=tmp_path,
                          stdout=subprocess.PIPE, text=True, check=True)
    assert f"to [{folder.format(here=tmp_path)}]" in done.stdout.splitlines()
