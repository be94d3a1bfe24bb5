# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""kiwarp add, del, show, set, up and down."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kiwarp_tools import VERSION, cli, config
from kiwarp_tools.system import KernelLog, Result, System

TOP = Path(__file__).resolve().parent.parent.parent


def kiwarp(system, *words: str) -> int:
    return cli.main(words, system)


def fails(system, capsys, says: str, *words: str) -> None:
    assert kiwarp(system, *words) == 1
    err = capsys.readouterr().err
    assert err.startswith("kiwarp: ") and err.count("\n") == 1
    assert re.search(says, err), err


def test_add_and_del(system) -> None:
    assert kiwarp(system, "add", "eth0") == 0
    assert system.links == {"kiwarp_eth0": "eth0"}
    assert not system.path(config.FILE).exists()
    assert kiwarp(system, "del", "eth0") == 0
    assert not system.links


def test_add_with_a_name_and_settings(system) -> None:
    assert kiwarp(system, "add", "--name", "kiwarp0", "--set", "crc=0", "eth0", "--set", "rtr=read") == 0
    assert system.read("/sys/class/infiniband/kiwarp0/settings/crc") == "0"
    assert system.read("/sys/class/infiniband/kiwarp0/settings/rtr") == "read"


def test_add_what_can_not_be(system, capsys) -> None:
    # A bonding driver's file is no interface.
    system.write("/sys/class/net/bonding_masters", "")
    fails(system, capsys, "eth9: no such network interface; there are eth0$", "add", "eth9")
    fails(system, capsys, "bonding_masters: no such network interface", "add", "bonding_masters")
    fails(system, capsys, "no such setting: crk; there are crc, ", "add", "eth0", "--set", "crk=0")
    assert not system.links
    system.device("kiwarp0", "eth0")
    fails(system, capsys, "eth0 has the device kiwarp0 already", "add", "eth0")
    system.interface("eth1")
    fails(system, capsys, "there is an RDMA device kiwarp0 already", "add", "eth1", "--name", "kiwarp0")


def test_add_when_rdma_or_modprobe_fails(system, capsys) -> None:
    system.answers["rdma link add"] = Result(1, err="error: Invalid argument")
    fails(system, capsys, "eth0: error: Invalid argument", "add", "eth0")
    no_module(system)
    system.answers["modprobe kiwarp"] = Result(1, err="modprobe: FATAL: Module kiwarp not found")
    fails(system, capsys, "the module does not load .*not found.*doctor", "add", "eth0")


def no_module(system) -> None:
    folder = system.path("/sys/module/kiwarp")
    folder.rename(folder.with_name("gone"))


def test_a_module_that_does_not_load_says_why(system, capsys) -> None:
    no_module(system)
    said = "modprobe: ERROR: could not insert 'kiwarp': Invalid argument"
    system.answers["modprobe kiwarp"] = Result(1, err=said)
    system.log = ["kiwarp: loading out-of-tree module taints kernel.", "eth0: link up"]
    fails(system, capsys, rf"does not load \({said}\): kiwarp doctor", "add", "eth0")
    system.log += ['kiwarp: module parameter: crc: "2" is not 0 or 1', "kiwarp: `2' invalid for parameter `crc'"]
    fails(system, capsys, rf"does not load \({said}; module parameter: crc: \"2\" is not 0 or 1; `2' invalid for "
          r"parameter `crc'\): kiwarp doctor", "add", "eth0")


@pytest.mark.parametrize("words", [("add", "eth0"), ("del", "kiwarp0"), ("set", "kiwarp0", "crc=0"), ("up", "eth0"),
                                   ("down", "eth0")])
def test_who_is_not_root(system, capsys, words) -> None:
    system.device("kiwarp0", "eth0")
    system.root_user = False
    fails(system, capsys, "needs root's rights: try sudo", *words)
    assert kiwarp(system, "show") == 0


@pytest.mark.parametrize("words", [(), ("add",), ("add", "eth0", "--set", "crc"), ("set", "kiwarp0"), ("fly",),
                                   ("set", "kiwarp0", "=1"), ("doctor", "--port", "0"), ("show", "--nothing"),
                                   ("del", "", "--persistent"), ("add", ""), ("up", ""), ("add", "eth0", "--name", "")])
def test_wrong_command_lines(system, words) -> None:
    with pytest.raises(SystemExit) as ended:
        kiwarp(system, *words)
    assert ended.value.code == 2


def test_show(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.device("far", None)
    system.write("/sys/class/infiniband/kiwarp0/settings/crc", "0")
    assert kiwarp(system, "show") == 0
    assert capsys.readouterr().out.splitlines() == [
        "far: on (an interface of another network namespace), ACTIVE",
        "kiwarp0: on eth0, ACTIVE, MTU 1500", "    crc = 0   (default: 1)"]
    assert kiwarp(system, "show", "--all", "eth0") == 0
    assert "    rtr = write read\n" in capsys.readouterr().out


def test_show_as_json(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.write(config.FILE, "[eth0]")
    assert kiwarp(system, "show", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == [{"name": "kiwarp0", "interface": "eth0", "state": "ACTIVE", "mtu": 1500, "persistent": True,
                      "settings": {"crc": "1", "mpa_rev": "2", "port_map": "none", "rtr": "write read"}}]


def test_each_command_prints_json(system, capsys) -> None:
    system.write(config.FILE, "[eth0]\nname = kiwarp0")
    for words, name in ((("up", "eth0"), "kiwarp0"), (("set", "kiwarp0", "crc=0"), "kiwarp0"), (("down", "eth0"), None),
                        (("down", "eth0"), None), (("add", "eth0"), "kiwarp_eth0"), (("del", "eth0"), None),
                        (("del", "kiwarp0", "--persistent"), None)):
        assert kiwarp(system, *words, "--json") == 0
        assert json.loads(capsys.readouterr().out).get("name") == name, words


def test_devices_of_other_drivers_are_not_ours(system, capsys) -> None:
    system.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA")
    assert kiwarp(system, "show") == 0
    assert capsys.readouterr().out == ""
    fails(system, capsys, "mlx5_0: no such device of Kiwarp", "del", "mlx5_0")


def test_set(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    assert kiwarp(system, "set", "eth0", "crc=0", "rtr=read") == 0
    assert system.read("/sys/class/infiniband/kiwarp0/settings/rtr") == "read"
    fails(system, capsys, "no such setting: crk", "set", "kiwarp0", "crc=1", "crk=1")
    assert system.read("/sys/class/infiniband/kiwarp0/settings/crc") == "0"
    fails(system, capsys, "nothing: no such device", "set", "nothing", "crc=1")


def test_set_all_or_nothing(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    bad = system.path("/sys/class/infiniband/kiwarp0/settings/rtr")
    bad.unlink()
    bad.mkdir()
    fails(system, capsys, "rtr", "set", "kiwarp0", "crc=0", "rtr=none")
    assert system.read("/sys/class/infiniband/kiwarp0/settings/crc") == "1"


def test_persistent(system, capsys) -> None:
    assert kiwarp(system, "add", "eth0", "--persistent", "--set", "crc=0", "--name", "kiwarp0") == 0
    assert config.load(system) == {"eth0": config.Section("eth0", "kiwarp0", {"crc": "0"})}
    assert kiwarp(system, "set", "kiwarp0", "--persistent", "rtr=read") == 0
    assert config.load(system)["eth0"].settings == {"crc": "0", "rtr": "read"}
    assert kiwarp(system, "del", "kiwarp0", "--persistent") == 0
    assert not config.load(system) and not system.links
    system.device("kiwarp0", "eth0")
    fails(system, capsys, "no section for kiwarp0", "set", "kiwarp0", "--persistent", "crc=0")


@pytest.mark.parametrize("words", [("a]b",), ("eth0", "--name", "k\n[eth7]"), ("eth0", "--set", "crc=1\nx")])
def test_what_the_file_can_not_have_is_not_added(system, capsys, words) -> None:
    system.interface("a]b")
    system.write(config.FILE, "[eth7]")
    fails(system, capsys, "kiwarp.conf can not have ", "add", *words, "--persistent")
    assert not system.links and list(config.load(system)) == ["eth7"]


def test_what_the_file_can_not_have_is_not_set(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.write(config.FILE, "[eth0]\nname = kiwarp0")
    fails(system, capsys, "kiwarp.conf can not have ", "set", "kiwarp0", "crc=0\n[eth7]", "--persistent")
    assert system.read("/sys/class/infiniband/kiwarp0/settings/crc") == "1"


def test_persistent_set_is_all_or_nothing(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.write(config.FILE, "[eth0]\nname = kiwarp0")
    # The file can't be written.
    system.path(config.FILE).with_name(f".kiwarp.conf.{os.getpid()}").mkdir()
    fails(system, capsys, "kiwarp.conf: Is a directory", "set", "kiwarp0", "crc=0", "--persistent")
    assert system.read("/sys/class/infiniband/kiwarp0/settings/crc") == "1"


def test_persistent_add_is_all_or_nothing(system, capsys) -> None:
    # The file can't be written.
    system.write(config.FILE, "# mine")
    temporary = system.path(config.FILE).with_name(f".kiwarp.conf.{os.getpid()}")
    temporary.mkdir()
    fails(system, capsys, "kiwarp.conf: Is a directory", "add", "eth0", "--persistent")
    assert not system.links and not config.load(system)
    temporary.rmdir()
    # The service does not start.
    system.path("/run/systemd/system").mkdir(parents=True)
    system.answers["systemctl start kiwarp@eth0.service"] = Result(1, err="Job failed")
    fails(system, capsys, "kiwarp@eth0.service does not start .Job failed", "add", "eth0", "--persistent")
    assert not system.links and system.path(config.FILE).read_text() == "# mine\n"
    # There was a section.
    system.write(config.FILE, "[eth0]\nname = kiwarp7\ncrc = 0")
    fails(system, capsys, "does not start", "add", "eth0", "--persistent", "--name", "kiwarp0")
    assert not system.links and config.load(system) == {"eth0": config.Section("eth0", "kiwarp7", {"crc": "0"})}
    system.answers["rdma link delete"] = Result(1, err="error: Device or resource busy")
    fails(system, capsys, "does not start .*; nor could that be undone: kiwarp0: error: Device or resource busy",
          "add", "eth0", "--persistent", "--name", "kiwarp0")


def test_a_unit_s_name_is_for_the_shell(system, capsys) -> None:
    system.interface("br-lan")
    system.path("/run/systemd/system").mkdir(parents=True)
    system.answers["systemd-escape"] = Result(0, "kiwarp@br\\x2dlan.service\n")
    system.answers["systemctl start"] = Result(1, err="Job failed")
    fails(system, capsys, r"journalctl -u 'kiwarp@br\\x2dlan.service'$", "add", "br-lan", "--persistent")
    system.device("kiwarp_br-lan", "br-lan")
    system.answers["systemctl -q is-active"] = Result(0)
    system.answers["systemctl stop"] = Result(1, err="Job failed")
    fails(system, capsys, r"journalctl -u 'kiwarp@br\\x2dlan.service'$", "del", "br-lan")


def test_the_service_starts_before_what_waits_for_the_network() -> None:
    unit = (TOP / "tools/kiwarp@.service").read_text()
    before = [word for words in re.findall("^Before=(.*)$", unit, re.M) for word in words.split()]
    assert before == ["network.target", "network-online.target"]


MOUNT = """[Unit]
Requires=kiwarp@br0.service
After=kiwarp@br0.service network.target network-online.target
Wants=network-online.target systemd-networkd.service systemd-networkd-wait-online.service
[Mount]
What=192.0.2.1:/
Where=/mnt/kiwarp
Type=nfs
"""


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_a_mount_that_requires_the_service_makes_no_cycle(tmp_path) -> None:
    unit = (TOP / "tools/kiwarp@.service").read_text()
    (tmp_path / "kiwarp@.service").write_text(unit.replace("/usr/sbin/kiwarp", sys.executable))
    (tmp_path / "mnt-kiwarp.mount").write_text(MOUNT)
    done = subprocess.run(["systemd-analyze", "--man=no", "--recursive-errors=no", "verify", "mnt-kiwarp.mount"],
                          env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("page", ["kiwarp.8", "kiwarp.conf.5"])
def test_manual_says_how_to_name_a_unit(page) -> None:
    text = (TOP / "tools" / page).read_text().replace("\\-", "-")
    assert 'systemctl restart "$(systemd-escape --template=kiwarp@.service br-lan)"' in text


def test_names_do_not_clash_at_the_next_boot(system, capsys) -> None:
    system.write(config.FILE, "[eth7]\nname = kiwarp0")
    fails(system, capsys, "kiwarp0 as the name of eth7's device", "add", "eth0", "--persistent", "--name", "kiwarp0")
    assert not system.links


def test_a_section_goes_though_there_is_no_device(system) -> None:
    system.write(config.FILE, "[eth7]\nname = kiwarp0")
    assert kiwarp(system, "del", "kiwarp0", "--persistent") == 0
    assert not config.load(system)


def test_a_section_goes_by_its_device_s_name_or_its_interface(system) -> None:
    system.write(config.FILE, "[eth7]\nname = kiwarp0\n\n[eth8]\n\n[eth9]\nname = eth7")
    assert kiwarp(system, "del", "kiwarp_eth8", "--persistent") == 0
    assert list(config.load(system)) == ["eth7", "eth9"]
    # As with devices, a name counts before an interface.
    assert kiwarp(system, "del", "eth7", "--persistent") == 0
    assert list(config.load(system)) == ["eth7"]
    assert kiwarp(system, "del", "eth7", "--persistent") == 0
    assert not config.load(system)


@pytest.mark.parametrize("interface", [None, "lan0"])
def test_a_section_goes_wherever_its_device_is(system, interface) -> None:
    system.write(config.FILE, "[eth7]\nname = kiwarp0\n\n[eth8]")
    system.device("kiwarp0", interface)
    system.device("kiwarp_eth8", interface)
    assert kiwarp(system, "del", "kiwarp0", "--persistent") == 0
    assert list(config.load(system)) == ["eth8"]
    assert kiwarp(system, "del", "kiwarp_eth8", "--persistent") == 0
    assert not config.load(system) and not system.links


def test_a_device_without_a_section_goes_and_that_is_said(system, capsys) -> None:
    system.write(config.FILE, "[eth7]")
    system.device("kiwarp0", "eth0")
    assert kiwarp(system, "del", "kiwarp0", "--persistent") == 0
    assert capsys.readouterr().err == "kiwarp: /etc/rdma/kiwarp.conf has no section for kiwarp0\n"
    assert not system.links and list(config.load(system)) == ["eth7"]


def test_a_section_stays_where_devices_can_not_be_listed(system, capsys) -> None:
    system.write(config.FILE, "[eth0]\nname = kiwarp0")
    system.device("kiwarp0", "eth0")
    system.answers["rdma -j link show"] = Result(1, err="error: Invalid argument")
    fails(system, capsys, "rdma link show", "del", "kiwarp0", "--persistent")
    assert list(config.load(system)) == ["eth0"]


def test_systemd_is_told(system) -> None:
    system.path("/run/systemd/system").mkdir(parents=True)
    system.answers["systemctl start kiwarp@eth0.service"] = Result(0)
    system.answers["systemctl -q is-active kiwarp@eth0.service"] = Result(0)
    system.answers["systemctl stop kiwarp@eth0.service"] = Result(0)
    assert kiwarp(system, "add", "eth0", "--persistent") == 0
    trigger = "udevadm trigger --settle --action=change /sys/class/net/eth0"
    assert system.commands[-3:] == [trigger, "systemd-escape --template=kiwarp@.service eth0",
                                    "systemctl start kiwarp@eth0.service"]
    assert kiwarp(system, "del", "eth0") == 0
    assert "systemctl stop kiwarp@eth0.service" in system.commands
    assert not system.links and "eth0" in config.load(system)
    assert kiwarp(system, "del", "eth0", "--persistent") == 0
    assert system.commands[-1] == trigger


def test_systemd_knows_no_interface_of_another_network_namespace(system, capsys) -> None:
    system.path("/run/systemd/system").mkdir(parents=True)
    system.write(config.FILE, "[eth0]")
    system.answers["systemctl"] = Result(0)
    system.first_netns = False
    assert kiwarp(system, "add", "eth0") == 0
    assert kiwarp(system, "show", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["persistent"] is False
    assert kiwarp(system, "set", "eth0", "crc=0") == 0
    for words in (("add", "eth0"), ("set", "eth0", "crc=1"), ("del", "eth0"), ("del", "kiwarp_eth0")):
        fails(system, capsys, "network namespace of process 1, which this is not", *words, "--persistent")
    assert system.links and list(config.load(system)) == ["eth0"]
    assert kiwarp(system, "del", "eth0") == 0
    assert not system.links and not [line for line in system.commands if line.startswith(("systemctl", "udevadm"))]
    # The service's own commands are for the namespace that they run in.
    assert kiwarp(system, "up", "eth0") == 0 and system.links
    assert kiwarp(system, "down", "eth0") == 0 and not system.links


def test_the_network_namespace_is_compared_with_that_of_process_1(monkeypatch) -> None:
    of = {"/proc/self/ns/net": "net:[4026531840]", "/proc/1/ns/net": "net:[4026531840]"}

    def readlink(path: str) -> str:
        if path not in of:
            raise PermissionError
        return of[path]

    monkeypatch.setattr(os, "readlink", readlink)
    assert System().is_first_netns()
    of["/proc/self/ns/net"] = "net:[4026532001]"
    assert not System().is_first_netns() and not System().has_systemd()
    del of["/proc/1/ns/net"]
    assert System().is_first_netns()


def test_a_device_that_a_list_lacks_goes_all_the_same(system) -> None:
    for missing in range(4):
        system.device("kiwarp0", "eth0")
        system.missing = missing
        assert kiwarp(system, "down", "eth0") == 0
        assert not system.links and not system.missing


def test_other_devices_that_go_while_they_are_listed(system) -> None:
    system.device("kiwarp0", "eth0")
    system.going = 3
    assert kiwarp(system, "down", "eth0") == 0
    assert not system.links and not system.going


def test_a_list_that_cannot_be_had(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.answers["rdma -j link show"] = Result(1, err="error: Invalid argument")
    fails(system, capsys, "rdma link show: error: Invalid argument", "down", "eth0")


def test_a_device_that_no_list_has(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.answers["rdma link delete"] = Result(1, err="Wrong device name - kiwarp0")
    fails(system, capsys, "kiwarp0: Wrong device name", "del", "kiwarp0")


def test_up_and_down(system, capsys) -> None:
    fails(system, capsys, r"no section \[eth0\]", "up", "eth0")
    system.write(config.FILE, "[eth0]\ncrc = 0")
    assert kiwarp(system, "up", "eth0") == 0
    assert system.links == {"kiwarp_eth0": "eth0"}
    system.write("/sys/class/infiniband/kiwarp_eth0/settings/crc", "1")
    assert kiwarp(system, "up", "eth0") == 0
    assert system.read("/sys/class/infiniband/kiwarp_eth0/settings/crc") == "0"
    assert kiwarp(system, "down", "eth0") == 0 and not system.links
    assert kiwarp(system, "down", "eth0") == 0
    system.device("other", "eth0")
    fails(system, capsys, "eth0 has the device other already, not kiwarp_eth0", "up", "eth0")


@pytest.mark.parametrize("interface", [None, "eth0"])
@pytest.mark.parametrize("command", ["add", "up"])
def test_a_device_that_is_about_to_go_is_waited_for(system, command, interface) -> None:
    system.write(config.FILE, "[eth0]")
    system.device("kiwarp_eth0", interface)
    system.dying = ["kiwarp_eth0"]
    assert kiwarp(system, command, "eth0") == 0
    assert system.links == {"kiwarp_eth0": "eth0"} and not system.dying


def test_up_makes_a_device_what_the_file_says(system) -> None:
    system.write(config.FILE, "[eth0]\ncrc = 0\nrtr = read")
    assert kiwarp(system, "up", "eth0") == 0
    system.write(config.FILE, "[eth0]\nrtr = read")
    assert kiwarp(system, "up", "eth0") == 0
    assert system.read("/sys/class/infiniband/kiwarp_eth0/settings/crc") == "1"
    assert system.read("/sys/class/infiniband/kiwarp_eth0/settings/rtr") == "read"


@pytest.mark.parametrize("text", ["[eth0]", "[eth0]\nname = kiwarp0", "[eth0]\n\n[lan0]", ""])
def test_down_of_an_interface_that_was_renamed(system, text) -> None:
    system.write(config.FILE, text)
    system.device("kiwarp0" if "kiwarp0" in text else "kiwarp_eth0", "eth0")
    system.device("other", "eth1")
    system.rename("eth0", "lan0")
    assert kiwarp(system, "down", "eth0") == 0
    assert system.links == {"other": "eth1"}


def test_down_leaves_the_devices_of_others(system) -> None:
    system.write(config.FILE, "[eth0]\nname = kiwarp0\n\n[lan0]\nname = kiwarp0")
    system.device("kiwarp0", "eth0")
    # The section of the new name is for it, too.
    system.rename("eth0", "lan0")
    assert kiwarp(system, "down", "eth0") == 0
    # Somebody has given the name to another interface's device.
    system.write(config.FILE, "[eth0]\nname = kiwarp0")
    system.interface("eth0")
    assert kiwarp(system, "down", "eth0") == 0
    # Its interface is in another network namespace.
    system.links["kiwarp0"] = None
    system.rename("eth0", "eth1")
    assert kiwarp(system, "down", "eth0") == 0
    assert system.links == {"kiwarp0": None}


def test_up_waits_for_the_service_of_the_former_name(system, capsys) -> None:
    system.write(config.FILE, "[eth0]\n\n[lan0]")
    system.device("kiwarp_eth0", "eth0")
    system.rename("eth0", "lan0")
    fails(system, capsys, "lan0 has the device kiwarp_eth0 already, not kiwarp_lan0", "up", "lan0")
    assert system.slept > 3
    system.slept = 0
    system.other = lambda: kiwarp(system, "down", "eth0")
    assert kiwarp(system, "up", "lan0") == 0
    assert system.links == {"kiwarp_lan0": "lan0"} and system.slept == 3


def test_a_wrong_file_is_one_line(system, capsys) -> None:
    system.write(config.FILE, "crc = 0")
    fails(system, capsys, "kiwarp.conf, line 1", "up", "eth0")
    fails(system, capsys, "kiwarp.conf, line 1", "add", "eth0", "--persistent")
    assert not system.links
    system.device("kiwarp0", "eth0")
    fails(system, capsys, "kiwarp.conf, line 1", "del", "eth0", "--persistent")
    assert system.links == {"kiwarp0": "eth0"}


def test_a_wrong_line_is_no_concern_of_other_devices(system, capsys) -> None:
    system.write(config.FILE, "[eth0]\ncrc = 0\n [eth1]")
    assert kiwarp(system, "up", "eth0") == 0
    assert kiwarp(system, "show", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["persistent"]
    system.interface("eth1")
    assert kiwarp(system, "add", "eth1") == 0
    assert kiwarp(system, "set", "eth1", "crc=0") == 0
    assert kiwarp(system, "del", "eth1") == 0


def test_a_file_that_can_not_be_read_hides_no_device(system, capsys) -> None:
    system.device("kiwarp0", "eth0")
    system.path(config.FILE).mkdir(parents=True)
    assert kiwarp(system, "show", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["persistent"] is None
    assert kiwarp(system, "show") == 0
    assert capsys.readouterr().out == "kiwarp0: on eth0, ACTIVE, MTU 1500\n"


def test_bytes_that_are_no_text_are_shown(system, capsys) -> None:
    system.write(config.FILE, "")
    system.path(config.FILE).write_bytes(b"[eth0]\n\xff = 1\n\xff = 2\n")
    assert kiwarp(system, "doctor") == 1
    assert "line 3: \\udcff for the second time" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("set", "kiwarp0", "crc=0", "rtr=\udcff"), ("add", "eth1", "--set", "crc=\udcff"),
                                   ("add", "eth1", "--set", "\udcff=0")])
def test_values_that_are_no_text_are_refused(system, words) -> None:
    system.device("kiwarp0", "eth0")
    system.interface("eth1")
    with pytest.raises(SystemExit) as ended:
        kiwarp(system, *words)
    assert ended.value.code == 2
    assert system.links == {"kiwarp0": "eth0"}
    assert system.read("/sys/class/infiniband/kiwarp0/settings/crc") == "1"


def test_a_value_of_the_file_that_is_no_text(system, capsys) -> None:
    system.write(config.FILE, "")
    system.path(config.FILE).write_bytes(b"[eth0]\ncrc = 0\nrtr = \xff\n")
    fails(system, capsys, "rtr: .* is not UTF-8", "up", "eth0")
    assert not system.links
    system.device("kiwarp_eth0", "eth0")
    fails(system, capsys, "rtr: .* is not UTF-8", "up", "eth0")
    assert system.read("/sys/class/infiniband/kiwarp_eth0/settings/crc") == "1"


def test_a_kernel_log_that_is_another_file_ends(monkeypatch) -> None:
    records = [b"4,7,9,-;kiwarp: crc: \"2\" is not 0 to 1\n SUBSYSTEM=net\n", b""]
    monkeypatch.setattr(os, "open", lambda name, flags: 77)
    monkeypatch.setattr(os, "lseek", lambda file, offset, whence: 0)
    monkeypatch.setattr(os, "read", lambda file, size: records.pop(0))
    assert KernelLog().lines() == ['kiwarp: crc: "2" is not 0 to 1']


def test_users_find_programs_of_administrators(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert System().run("modinfo", "--version").code == 0
    assert System().run("no-such-program").code == 127


def test_standard_output_that_is_full_or_closed() -> None:
    program = [sys.executable, str(TOP / "tools/kiwarp"), "show", "--json"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "kiwarp: [Errno 28] No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as closed:
        done = subprocess.run(program, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_one_version_everywhere() -> None:
    for file, pattern in (("kernel/main.c", r'MODULE_VERSION\("(.*?)"\)'), ("debian/changelog", r"^kiwarp \((.*?)\)"),
                          ("CMakeLists.txt", r"project\(kiwarp VERSION (\S+)"),
                          ("userspace-provider/CMakeLists.txt", r"project\(kiwarp-provider VERSION (\S+)"),
                          ("CHANGELOG.md", r"^## (\S+)"), ("tools/kiwarp.8", r'"Kiwarp (\S+)"'),
                          ("tools/kiwarp.conf.5", r'"Kiwarp (\S+)"')):
        found = re.search(pattern, (TOP / file).read_text(), re.M)
        assert found and found[1] == VERSION, file


COMPLETE = """
. "$1"
_kiwarp_devices() { echo rdma0; }
_kiwarp_interfaces() { printf '%s\\n' "${names[@]}"; }
_kiwarp_settings() { printf '%s=\\n' crc rtr; }
names=('$(touch made)' '`touch made`' '*' '[m]ade too' eth0 eth1)
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_kiwarp && [ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("words, offered", [
    (("add", ""), [r"\$\(touch\ made\)", r"\`touch\ made\`", r"\*", r"\[m\]ade\ too", "eth0", "eth1"]),
    (("del", "eth"), ["eth0", "eth1"]), (("show", r"\$"), [r"\$\(touch\ made\)"]), (("del", "*"), []),
    (("set", "eth1"), ["eth1"]), (("set", "eth1", ""), ["crc=", "rtr="]), (("add", "eth0", "--set", "c"), ["crc="]),
    (("d",), ["del", "doctor", "down"]), (("del", "--p"), ["--persistent"]), (("add", "--name", ""), []),
    (("set", "eth1", "crc", "="), []), (("del", "r"), ["rdma0"]), (("doctor", "r"), ["rdma0"]), (("add", "r"), []),
])
def test_completion_takes_names_as_they_are(tmp_path, words, offered) -> None:
    (tmp_path / "made too").touch()
    done = subprocess.run(["bash", "-c", COMPLETE, "-", TOP / "tools/kiwarp.bash-completion", "kiwarp", *words],
                          cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == offered and not done.stderr
    assert os.listdir(tmp_path) == ["made too"]


def test_completion_and_manual_know_each_option() -> None:
    completion = (TOP / "tools/kiwarp.bash-completion").read_text()
    manual = (TOP / "tools/kiwarp.8").read_text().replace("\\-", "-")
    options = set(re.findall(r'"(--[a-z]+)"', (TOP / "tools/kiwarp_tools/cli.py").read_text()))
    assert len(options) > 6
    for option in options:
        assert option in completion and option in manual, option
