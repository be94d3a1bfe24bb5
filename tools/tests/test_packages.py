# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The maintainer scripts of the packages, with a folder in the place of the system."""
from __future__ import annotations

import subprocess
from pathlib import Path

DEBIAN = Path(__file__).resolve().parent.parent.parent / "debian"


def commands(root: Path, script: str, *words: str, package: str = "kiwarp-tools", **programs: str) -> list[str]:
    """Run it; what it calls of systemd's programs, which do nothing here but what these lines of shell say."""
    for name, line in {"systemctl": "", "udevadm": "", "timeout": "", **programs}.items():
        program = root / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\n{line}\necho "{name} $*"\n')
        program.chmod(0o755)
    (root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    text = (DEBIAN / f"{package}.{script}").read_text()
    for folder in ("/run/systemd", "/etc/rdma"):
        text = text.replace(folder, f"{root}{folder}")
    done = subprocess.run(["sh", "-c", text, script, *words], env={"PATH": f"{root}/bin:/usr/bin:/bin"},
                          stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def with_file(root: Path) -> Path:
    folder = root / "etc/rdma"
    folder.mkdir(parents=True)
    (folder / "kiwarp.conf").write_text("[eth0]\ncrc = 0\n[br-lan]\n")
    return folder


def test_a_removal_does_not_wait_for_udev_without_end(tmp_path) -> None:
    assert "timeout 60 udevadm trigger --settle --subsystem-match=net --action=change" in commands(
        tmp_path, "postrm", "remove")


def test_services_come_back_when_a_removal_is_given_up(tmp_path) -> None:
    with_file(tmp_path)
    assert "udevadm trigger --subsystem-match=net --action=change" in commands(tmp_path, "postinst", "configure")
    assert "udevadm trigger --subsystem-match=net --action=add --sysname-match=eth0 --sysname-match=br-lan" in commands(
        tmp_path, "postinst", "abort-remove")
    assert not commands(tmp_path, "postinst", "abort-upgrade", "0.1")


def test_without_sections_no_interface_comes_once_more(tmp_path) -> None:
    folder = with_file(tmp_path)
    (folder / "kiwarp.conf").write_text("# [eth0]\n")
    assert not commands(tmp_path, "postinst", "abort-remove")


def test_a_purge_leaves_nothing(tmp_path) -> None:
    folder = with_file(tmp_path)
    (folder / ".kiwarp.conf.77").write_text("[eth0]\n")
    commands(tmp_path, "postrm", "purge")
    assert not folder.exists()


LISTS = r"""[ "$1 $2" != "list-units --state=failed" ] || exec printf '%s loaded failed failed X\n' \
    'kiwarp@eth0.service' 'kiwarp@br\x2dlan.service'
"""


def test_services_that_failed_for_want_of_the_module_start_when_it_is_built(tmp_path) -> None:
    made = ["systemctl start kiwarp@eth0.service", r"systemctl start kiwarp@br\x2dlan.service"]
    assert commands(tmp_path, "postinst", "configure", package="kiwarp-dkms", modinfo="", systemctl=LISTS) == made
    # They fail once more, and the installation does not.
    fails = f'{LISTS}echo "systemctl $*"; exit 1'
    assert commands(tmp_path, "postinst", "configure", package="kiwarp-dkms", modinfo="", systemctl=fails) == made
    assert not commands(tmp_path, "postinst", "configure", package="kiwarp-dkms", modinfo="", systemctl="exit 1")
    # There is none for this kernel.
    assert not commands(tmp_path, "postinst", "configure", package="kiwarp-dkms", modinfo="exit 1", systemctl=LISTS)
    assert not commands(tmp_path, "postinst", "abort-remove", package="kiwarp-dkms", modinfo="", systemctl=LISTS)


def test_the_module_is_built_before_services_start() -> None:
    lines = (DEBIAN / "kiwarp-dkms.postinst").read_text().splitlines()
    assert lines.index("#DEBHELPER#") < min(at for at, line in enumerate(lines) if "start_failed" in line)
