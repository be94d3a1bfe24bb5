# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""kiwarp doctor: each usual mistake is found, and nothing where all is right."""
from __future__ import annotations

import json
from pathlib import Path

import pytest
from kiwarp_tools import cli, config, doctor
from kiwarp_tools.findings import ERROR, NOTE, OK, WARNING, Finding, Question
from kiwarp_tools.system import Result

TOP = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def healthy(system):
    """A machine on which nothing is wrong."""
    system.device("kiwarp0", "eth0")
    system.write(config.FILE, "[eth0]\nname = kiwarp0")
    system.write("/usr/lib/x86_64-linux-gnu/libibverbs/libkiwarp-rdmav34.so", "")
    system.write("/etc/libibverbs.d/kiwarp.driver", "driver kiwarp")
    system.answers.update({
        "modinfo -F version kiwarp": Result(0, "0.2\n"),
        "modinfo -F sig_id kiwarp": Result(0, "PKCS#7\n"),
        "modinfo -F srcversion kiwarp": Result(0, "D3A2CDC8BA2726826F50E9F\n"),
        "ip -j address show dev eth0": Result(0, json.dumps([{"addr_info": [{"local": "192.0.2.1"}]}])),
        "ip -j route get": Result(0, json.dumps([{"dev": "eth0"}])),
        "ping": Result(0),
        "rdma -j resource show cm_id": Result(0, "[]"),
        "nft -j list ruleset": Result(0, '{"nftables":[{"metainfo":{}}]}'),
    })
    lists(system, "kiwarp0\n")
    return system


def lists(system, out: str, err: str = "", code: int = 0) -> None:
    """What libibverbs, which a Python of its own asks, finds."""
    for name in [name for name in system.answers if "python" in name]:
        del system.answers[name]
    system.answers[doctor.checks_programs.sys.executable] = Result(code, out, err)


def found(system, check: str, **question) -> list[Finding]:
    return [f for f in doctor.examine(system, Question(**question)) if f.check == check]


def only(system, check: str, level: str, text: str, advice: str = "", **question) -> None:
    """The check finds that and nothing else that is wrong."""
    findings = [f for f in found(system, check, **question) if f.level != OK]
    assert [f.level for f in findings] == [level], findings
    assert text in findings[0].text and advice in findings[0].advice, findings


def test_nothing_is_wrong(healthy, capsys) -> None:
    assert all(f.level == OK for f in doctor.examine(healthy, Question(peer="192.0.2.2")))
    assert cli.main(["doctor"], healthy) == 0
    assert capsys.readouterr().out == "0 errors, 0 warnings, 0 notes\n"


def test_exit_code_and_json(healthy, capsys) -> None:
    healthy.interface("eth0", flags="0x1002")
    assert cli.main(["doctor", "--json"], healthy) == 1
    findings = json.loads(capsys.readouterr().out)
    assert {"check": "interface", "level": "error", "text": "eth0, of kiwarp0, is down",
            "advice": "ip link set eth0 up"} in findings


def test_an_unknown_device(healthy) -> None:
    only(healthy, "devices", ERROR, "kiwarp7: no such device", device="kiwarp7")


def no_module(system) -> None:
    folder = system.path("/sys/module/kiwarp")
    folder.rename(folder.with_name("gone"))


def test_module(healthy) -> None:
    healthy.write("/sys/module/kiwarp/version", "0.1")
    only(healthy, "module", WARNING, "version 0.1 is loaded, 0.2 is installed", "modprobe -r kiwarp")
    no_module(healthy)
    only(healthy, "module", NOTE, "installed, but not loaded", "modprobe kiwarp")
    name = doctor.checks_kernel.SECURE_BOOT
    healthy.write(name, "")
    healthy.path(name).write_bytes(b"\6\0\0\0\0")
    only(healthy, "module", NOTE, "installed, but not loaded")
    healthy.path(name).write_bytes(b"\6\0\0\0\1")
    only(healthy, "module", WARNING, "Secure Boot is on", "mokutil --import")


def test_module_with_options(healthy) -> None:
    no_module(healthy)
    only(healthy, "module", NOTE, "but not loaded", "journalctl -k -g kiwarp")
    healthy.answers["modprobe -c"] = Result(0, "options kiwarpx a=1\noptions kiwarp crc=2 rtr=write,read\n"
                                            "options kiwarp p2p=0\noptions kiwarp\nalias kiwarp kiwarp crc=3\n")
    only(healthy, "module", NOTE, "not loaded; modprobe gives it crc=2 rtr=write,read and p2p=0",
         "modprobe -c | grep 'options kiwarp'")


def test_module_of_other_sources(healthy) -> None:
    healthy.write("/sys/module/kiwarp/srcversion", "D3A2CDC8BA2726826F50E9F")
    assert [f.text for f in found(healthy, "module")] == ["version 0.2 is loaded in Linux 6.12.1-test"]
    healthy.write("/sys/module/kiwarp/srcversion", "0123456789ABCDEF0123456")
    only(healthy, "module", WARNING, "built from other sources than the one that is installed (srcversion "
         "0123456789ABCDEF0123456, D3A2CDC8BA2726826F50E9F)", "its devices go with it")
    # The version tells more.
    healthy.write("/sys/module/kiwarp/version", "0.1")
    only(healthy, "module", WARNING, "version 0.1 is loaded, 0.2 is installed", "or boot again")


def test_module_without_a_signature_that_the_kernel_wants(healthy) -> None:
    no_module(healthy)
    for file, off, on, text in ((doctor.checks_kernel.SIG_ENFORCE, "N", "Y", "module.sig_enforce is set"),
                                (doctor.checks_kernel.LOCKDOWN, "[none] integrity confidentiality",
                                 "none [integrity] confidentiality", "the kernel is locked down")):
        for signature in ("PKCS#7\n", ""):
            healthy.answers["modinfo -F sig_id kiwarp"] = Result(0, signature)
            healthy.write(file, off)
            only(healthy, "module", NOTE, "installed, but not loaded")
            healthy.write(file, on)
            if signature:
                only(healthy, "module", WARNING, text, 'if modprobe kiwarp says "Key was rejected by service"')
            else:
                only(healthy, "module", ERROR, "and this one has none", "the package kiwarp-dkms")
        healthy.path(file).unlink()


@pytest.mark.parametrize("loaded, installed", [("", "D3A2CDC8BA2726826F50E9F\n"), ("D3A2CDC8BA2726826F50E9F", "")])
def test_module_whose_sources_are_not_known(healthy, loaded, installed) -> None:
    if loaded:
        healthy.write("/sys/module/kiwarp/srcversion", loaded)
    healthy.answers["modinfo -F srcversion kiwarp"] = Result(0, installed)
    assert [f.level for f in found(healthy, "module")] == [OK]


def test_module_from_a_build_folder(healthy) -> None:
    healthy.write("/sys/module/kiwarp/srcversion", "0123456789ABCDEF0123456")
    for name in ("version", "srcversion"):
        healthy.answers[f"modinfo -F {name} kiwarp"] = Result(1, err="modinfo: ERROR: Module kiwarp not found.")
    assert [(f.level, f.text) for f in found(healthy, "module")] == [
        (OK, "version 0.2 is loaded in Linux 6.12.1-test; none is installed for it")]
    assert cli.main(["doctor"], healthy) == 0


def test_module_that_is_not_installed(healthy) -> None:
    no_module(healthy)
    healthy.answers["modinfo -F version kiwarp"] = Result(1)
    only(healthy, "module", ERROR, "Linux 6.12.1-test", "apt install linux-headers-6.12.1-test")
    healthy.write("/lib/modules/6.12.1-test/build/Makefile", "")
    only(healthy, "module", ERROR, "not installed", "install the package kiwarp-dkms")
    healthy.write("/var/lib/dkms/kiwarp/0.2/source", "")
    only(healthy, "module", ERROR, "not installed", "dkms autoinstall -k 6.12.1-test")
    healthy.kernel = "6.1.0-40-amd64"
    only(healthy, "module", ERROR, "not installed", "needs Linux 6.12 or later")


ALL = "".join(f"{option}=y\n" for option in doctor.checks_kernel.OPTIONS)


def test_options_that_the_module_needs_are_those_that_dkms_looks_for() -> None:
    dkms = (TOP / "debian/kiwarp-dkms.dkms").read_text()
    assert f'BUILD_EXCLUSIVE_CONFIG="{" ".join(doctor.checks_kernel.OPTIONS)}"' in dkms
    assert doctor.checks_kernel.RT_OPTION in dkms


@pytest.mark.parametrize("release, config, text", [
    ("6.12.1-cloud-amd64", "CONFIG_NET=y\n# CONFIG_INFINIBAND is not set\n",
     "which has no RDMA: it was built without CONFIG_INFINIBAND, CONFIG_INFINIBAND_ADDR_TRANS and"),
    ("6.12.1-test", ALL.replace("CONFIG_INFINIBAND_VIRT_DMA=y", ""),
     "which lacks what the module needs: it was built without CONFIG_INFINIBAND_VIRT_DMA"),
    ("6.18.1-rt", f"{ALL}CONFIG_PREEMPT_RT=y\n", "it was built without CONFIG_PREEMPT_RT_NEEDS_BH_LOCK"),
])
def test_module_for_a_kernel_that_can_not_have_it(healthy, release, config, text) -> None:
    no_module(healthy)
    healthy.answers["modinfo -F version kiwarp"] = Result(1)
    healthy.kernel = release
    build = f"/lib/modules/{release}/build"
    for file in (f"/boot/config-{release}", f"{build}/.config", f"{build}/include/config/auto.conf"):
        healthy.write(file, config)
        only(healthy, "module", ERROR, text, "apt install linux-image-amd64 linux-headers-amd64 (Debian 12: ")
        healthy.path(file).unlink()
    healthy.write(f"/boot/config-{release}", config)
    healthy.processor = "aarch64"
    only(healthy, "module", ERROR, text, "apt install linux-image-arm64 linux-headers-arm64 (Debian 12: ")
    healthy.processor = "riscv64"
    only(healthy, "module", ERROR, text, "boot a kernel that has it")


@pytest.mark.parametrize("release, config", [
    ("6.12.1-test", ALL.replace("=y", "=m")), ("6.12.1-test", ""), ("6.17.1-rt", f"{ALL}CONFIG_PREEMPT_RT=y\n"),
    ("6.18.1-rt", f"{ALL}CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y\n"),
])
def test_module_for_a_kernel_that_can_have_it(healthy, release, config) -> None:
    no_module(healthy)
    healthy.answers["modinfo -F version kiwarp"] = Result(1)
    healthy.kernel = release
    healthy.write(f"/boot/config-{release}", config)
    only(healthy, "module", ERROR, "not installed", f"apt install linux-headers-{release}")


def test_no_device(healthy) -> None:
    healthy.remove("kiwarp0")
    only(healthy, "devices", NOTE, "no device of Kiwarp", "kiwarp add")
    healthy.write("/sys/module/ib_core/parameters/netns_mode", "Y")
    assert "netns" not in found(healthy, "devices")[0].text
    healthy.write("/sys/module/ib_core/parameters/netns_mode", "N")
    only(healthy, "devices", NOTE, "are not seen here", "rdma dev set DEVICE netns NAME")


def test_persistence(healthy) -> None:
    healthy.remove("kiwarp0")
    only(healthy, "persistence", ERROR, "names eth0, which has no device", "kiwarp up eth0")
    healthy.path("/run/systemd/system").mkdir(parents=True)
    only(healthy, "persistence", ERROR, "names eth0, which has no device", "systemctl restart 'kiwarp@eth0.service'")
    healthy.write(config.FILE, "[eth5]")
    only(healthy, "persistence", NOTE, "names eth5, which is not there")
    healthy.write(config.FILE, "crc = 1")
    only(healthy, "persistence", ERROR, "/etc/rdma/kiwarp.conf, line 1: crc stands before", "kiwarp.conf(5)")
    healthy.device("kiwarp0", "eth0")
    healthy.write(config.FILE, "[eth0]\nname = kiwarp0\n\n[eth5")
    only(healthy, "persistence", ERROR, "/etc/rdma/kiwarp.conf, line 4: a section begins")
    healthy.write(config.FILE, "[eth0]\nname = kiwarp0\ncrc")
    only(healthy, "persistence", ERROR, "/etc/rdma/kiwarp.conf, line 3: neither")
    healthy.write(config.FILE, "[eth0]\nname = kiwarp0\ncrc = 0")
    only(healthy, "persistence", NOTE, 'crc of eth0\'s device is "1", "0" in', "kiwarp up eth0")
    healthy.write(config.FILE, "[eth0]\nname = kiwarp0\ncrc = 1")
    healthy.write("/sys/class/infiniband/kiwarp0/settings/rtr", "read")
    only(healthy, "persistence", NOTE, 'rtr of eth0\'s device is "read", and "write read" after a boot',
         'kiwarp set kiwarp0 rtr="read" --persistent')
    healthy.write("/sys/class/infiniband/kiwarp0/settings/rtr", "write read")
    healthy.write(config.FILE, "")
    only(healthy, "persistence", NOTE, "kiwarp0 is gone after a boot", "--persistent")


def test_persistence_of_a_device_that_the_next_boot_refuses(healthy) -> None:
    healthy.write(config.FILE, "[eth0]\nname = storage")
    only(healthy, "persistence", ERROR, "eth0 has the device kiwarp0, /etc/rdma/kiwarp.conf names it storage",
         "kiwarp del kiwarp0, then kiwarp up eth0")
    healthy.write(config.FILE, "[eth0]")
    only(healthy, "persistence", ERROR, "names it kiwarp_eth0")
    healthy.write(config.FILE, "[eth0]\nname = kiwarp0\ncrk = 0")
    only(healthy, "persistence", ERROR, "/etc/rdma/kiwarp.conf, [eth0]: no such setting: crk", "kiwarp show --all")


def test_persistence_of_a_file_that_can_not_be_read(healthy) -> None:
    healthy.path(config.FILE).unlink()
    healthy.path(config.FILE).mkdir()
    only(healthy, "persistence", ERROR, "/etc/rdma/kiwarp.conf: Is a directory", "kiwarp.conf(5)")
    healthy.root_user = False
    only(healthy, "persistence", WARNING, "could not be checked: /etc/rdma/kiwarp.conf: Is a directory")


def test_persistence_in_another_network_namespace(healthy) -> None:
    healthy.first_netns = False
    for text in ("", "[eth0]\nname = other", "[eth1]"):
        healthy.write(config.FILE, text)
        assert [(f.level, f.text) for f in found(healthy, "persistence")] == [
            (OK, "/etc/rdma/kiwarp.conf is not for the interfaces of this network namespace")]
    healthy.remove("kiwarp0")
    assert [f.advice for f in found(healthy, "devices")] == ["kiwarp add INTERFACE"]
    healthy.first_netns = True
    assert [f.advice for f in found(healthy, "devices")] == ["kiwarp add INTERFACE --persistent"]


def test_verbs(healthy) -> None:
    healthy.path("/sys/class/misc/rdma_cm/dev").unlink()
    healthy.path("/sys/class/misc/rdma_cm").rmdir()
    only(healthy, "verbs", ERROR, "rdma_ucm is not loaded", "modprobe rdma_ucm")


def test_verbs_without_uverbs(healthy) -> None:
    healthy.path("/sys/class/infiniband_verbs/abi_version").unlink()
    only(healthy, "verbs", ERROR, "ib_uverbs is not loaded: no program can open a device", "modprobe ib_uverbs")
    lists(healthy, "")
    only(healthy, "provider", ERROR, "does not find kiwarp0: the module ib_uverbs is not loaded", "modprobe ib_uverbs")


def test_libibverbs_that_fails(healthy) -> None:
    lists(healthy, "", "Segmentation fault", 139)
    only(healthy, "provider", ERROR, "libibverbs can not list devices: Segmentation fault")


@pytest.mark.parametrize("command, check", [("ip -j address show dev eth0", "interface"),
                                            ("nft -j list ruleset", "firewall"),
                                            ("rdma -j resource show cm_id", "port")])
def test_a_program_that_fails_ends_its_check_alone(healthy, command, check) -> None:
    healthy.answers[command] = Result(1, err="Operation not permitted")
    wrong = [f for f in doctor.examine(healthy, Question(ports=[4420])) if f.level not in (OK, NOTE)]
    assert [f.check for f in wrong] == [check], wrong
    assert "could not be checked" in wrong[0].text and "Operation not permitted" in wrong[0].text


def test_provider(healthy) -> None:
    lists(healthy, "", "libkiwarp: built for rdma-core 44 (...), but this process uses ...56\n")
    only(healthy, "provider", ERROR, "does not find kiwarp0: libkiwarp: built for rdma-core 44", "kiwarp-provider")
    lists(healthy, "")
    only(healthy, "provider", ERROR, "does not find kiwarp0", "IBV_SHOW_WARNINGS=1")
    healthy.path("/etc/libibverbs.d/kiwarp.driver").unlink()
    only(healthy, "provider", ERROR, "does not find kiwarp0: no file of /etc/libibverbs.d", "driver kiwarp")
    healthy.path("/usr/lib/x86_64-linux-gnu/libibverbs/libkiwarp-rdmav34.so").unlink()
    only(healthy, "provider", ERROR, "the provider is not installed", "apt install kiwarp-provider")
    lists(healthy, "", "OSError: libibverbs.so.1: cannot open shared object file", 1)
    only(healthy, "provider", ERROR, "libibverbs is not installed")
    healthy.remove("kiwarp0")
    only(healthy, "provider", WARNING, "only the kernel's consumers")


@pytest.mark.parametrize("variable", ["RDMAV_DRIVERS", "IBV_DRIVERS"])
def test_rdmav_drivers(healthy, variable) -> None:
    healthy.variables[variable] = "/opt/libkiwarp"
    only(healthy, "rdmav-drivers", ERROR, f"{variable} names /opt/libkiwarp, but there is no", f"unset {variable}")
    healthy.write("/opt/libkiwarp-rdmav34.so", "")
    only(healthy, "rdmav-drivers", WARNING, "though one is installed")
    healthy.variables[variable] = "mlx5;"
    only(healthy, "rdmav-drivers", NOTE, "names mlx5")


def test_memlock(healthy) -> None:
    healthy.locked = 8 << 20
    only(healthy, "memlock", NOTE, "is 8192 KiB (root's", "LimitMEMLOCK=infinity")
    healthy.root_user = False
    only(healthy, "memlock", WARNING, "is 8192 KiB (this user's", "limits.d")
    healthy.locked = 1 << 30
    assert not [f for f in found(healthy, "memlock") if f.level != OK]


def test_interface(healthy) -> None:
    healthy.answers["ip -j address show dev eth0"] = Result(0, '[{"addr_info":[]}]')
    only(healthy, "interface", ERROR, "eth0, of kiwarp0, has no IP address", "ip address add")
    healthy.answers["ip -j address show dev eth0"] = Result(0, '[{"addr_info":[{"scope":"link"}]}]')
    only(healthy, "interface", ERROR, "eth0, of kiwarp0, has no IP address")
    healthy.interface("eth0", carrier="0")
    only(healthy, "interface", ERROR, "no carrier")


def test_namespace(healthy) -> None:
    healthy.links["kiwarp0"] = None
    only(healthy, "namespace", WARNING, "kiwarp0 is in another network namespace", "ip netns exec")


def test_mtu(healthy) -> None:
    healthy.write("/sys/class/net/eth0/lower_slave0/mtu", "")
    healthy.interface("slave0", mtu="1400", ifindex="3", iflink="3")
    only(healthy, "mtu", WARNING, "eth0 has MTU 1500, slave0, below it, 1400", "ip link set slave0 mtu 1500")
    healthy.interface("slave0", mtu="9000", ifindex="3", iflink="3")
    assert not [f for f in found(healthy, "mtu") if f.level != OK]


def test_mtu_of_a_veth_pair(healthy) -> None:
    healthy.interface("eth0", iflink="3")
    healthy.interface("peer0", mtu="9000", ifindex="3", iflink="2")
    only(healthy, "mtu", WARNING, "eth0 has MTU 1500, peer0, its other end, 9000")
    healthy.interface("peer0", mtu="1500", ifindex="3", iflink="2")
    assert not [f for f in found(healthy, "mtu") if f.level != OK]


def test_mtu_to_the_peer(healthy) -> None:
    healthy.answers = {"ping -n -c 2 -W 2 -M do -s 1472 192.0.2.2": Result(1), **healthy.answers}
    only(healthy, "mtu", ERROR, "packets of 1500 bytes, the MTU of eth0, do not arrive", peer="192.0.2.2")
    healthy.answers = {"ping -n -c 1": Result(1), **healthy.answers}
    only(healthy, "mtu", WARNING, "does not answer ping", peer="192.0.2.2")


def test_mtu_to_a_peer_by_ipv6(healthy) -> None:
    healthy.answers = {"ping -n -c 2 -W 2 -M do -s 1452 2001:db8::2": Result(1), **healthy.answers}
    only(healthy, "mtu", ERROR, "packets of 1500 bytes, the MTU of eth0, do not arrive", peer="2001:db8::2")


def test_route(healthy) -> None:
    healthy.interface("eth1", ifindex="4", iflink="4")
    healthy.answers["ip -j route get"] = Result(0, '[{"dev":"eth1"}]')
    only(healthy, "route", ERROR, "the way to 192.0.2.2 is eth1, which has no device", "kiwarp add eth1",
         peer="192.0.2.2")
    healthy.answers["ip -j route get"] = Result(2, err="RTNETLINK answers: Network is unreachable")
    only(healthy, "route", ERROR, "no route to 192.0.2.2", peer="192.0.2.2")


def test_route_of_another_device(healthy) -> None:
    healthy.interface("eth1", ifindex="4", iflink="4")
    healthy.device("kiwarp1", "eth1")
    healthy.answers["ip -j address show dev eth1"] = healthy.answers["ip -j address show dev eth0"]
    for asked, name in (("kiwarp1", "kiwarp1"), ("eth1", "kiwarp1"), ("nothing", "nothing")):
        only(healthy, "route", ERROR, f"the way to 192.0.2.2 is eth0, which has kiwarp0, not {name}", "use kiwarp0, or",
             device=asked, peer="192.0.2.2")
    assert not [f for f in found(healthy, "route", device="kiwarp0", peer="192.0.2.2") if f.level != OK]
    assert not [f for f in found(healthy, "route", peer="192.0.2.2") if f.level != OK]


def test_route_to_an_own_address(healthy) -> None:
    healthy.interface("lo", mtu="65536")
    healthy.answers["ip -j route get"] = Result(0, '[{"type":"local","dst":"192.0.2.1","dev":"lo"}]')
    healthy.answers["ip -j address show to 192.0.2.1"] = Result(
        0, '[{},{"ifname":"eth0","addr_info":[{"local":"192.0.2.1"}]}]')
    assert not [f for f in doctor.examine(healthy, Question(peer="192.0.2.1")) if f.level != OK]
    # Of a network that lo has as a whole, no interface has each address.
    healthy.answers["ip -j address show to 127.0.0.2"] = Result(0, "[{},{}]")
    only(healthy, "route", ERROR, "the way to 127.0.0.2 is lo, which has no device", peer="127.0.0.2")


def test_ping_is_missing(healthy) -> None:
    healthy.answers["ping"] = Result(127)
    only(healthy, "mtu", WARNING, "ping is not installed", "apt install iputils-ping", peer="192.0.2.2")


def ruleset(*rules: list[dict], policy: str = "drop") -> Result:
    chain = {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": policy}
    return Result(0, json.dumps({"nftables": [{"chain": chain}] + [
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": rule}} for rule in rules]}))


def with_chains(answer: Result, **chains: list[list[dict]]) -> Result:
    """With other chains of the table, which may be jumped to."""
    entries = json.loads(answer.out)["nftables"]
    for name, rules in chains.items():
        where = {"family": "inet", "table": "filter"}
        entries += [{"chain": {**where, "name": name}},
                    *({"rule": {**where, "chain": name, "expr": rule}} for rule in rules)]
    return Result(0, json.dumps({"nftables": entries}))


def by_interface(name: object, **verdict: object) -> list[dict]:
    return [{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": name}}, verdict]


def vmap(left: dict, data: object) -> list[dict]:
    return [{"vmap": {"key": left, "data": data}}]


def with_set(answer: Result, **keys: object) -> Result:
    entries = json.loads(answer.out)["nftables"]
    named = {"family": "inet", "table": "filter", "name": "allowed", "type": "inet_service"} | keys
    return Result(0, json.dumps({"nftables": [*entries, {"set": named}]}))


def accept(right: object, protocol: str = "tcp") -> list[dict]:
    left = {"payload": {"protocol": protocol, "field": "dport"}}
    return [{"match": {"op": "==", "left": left, "right": right}}, {"accept": None}]


def test_firewall(healthy) -> None:
    healthy.answers["nft -j list ruleset"] = ruleset()
    only(healthy, "firewall", NOTE, "the chain inet filter input of nftables refuses")
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", "tcp dport 4420 accept", ports=[4420])
    healthy.answers["nft -j list ruleset"] = ruleset([{"reject": None}], policy="accept")
    only(healthy, "firewall", NOTE, "refuses")
    healthy.answers["nft -j list ruleset"] = ruleset(policy="accept")
    assert not [f for f in found(healthy, "firewall") if f.level != OK]


@pytest.mark.parametrize("right", [4420, {"set": [22, 4420]}, {"range": [4000, 5000]},
                                   {"set": [{"range": [1, 9999]}]}, {"elem": {"val": 4420, "comment": "x"}},
                                   {"set": [{"elem": {"val": {"range": [4419, 4421]}, "timeout": 9}}]},
                                   {"set": [{"prefix": {"addr": 61184, "len": 8}}, 4420]}])
def test_firewall_with_the_port_open(healthy, right) -> None:
    healthy.answers["nft -j list ruleset"] = ruleset(accept(22), accept(right))
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]


def test_firewall_with_a_named_set(healthy) -> None:
    rules = ruleset(accept("@allowed"))
    healthy.answers["nft -j list ruleset"] = with_set(rules, elem=[22, {"elem": {"val": 4420, "timeout": 9}}])
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]
    others: list[dict] = [{"elem": [22]}, {}, {"elem": [4420], "table": "other"}, {"elem": [4420], "name": "other"}]
    for other in others:
        healthy.answers["nft -j list ruleset"] = with_set(rules, **other)
        only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", ports=[4420])


def test_firewall_follows_chains(healthy) -> None:
    jump = {"target": "user"}
    port_key = {"payload": {"protocol": "tcp", "field": "dport"}}
    by_name = vmap({"meta": {"key": "iifname"}}, {"set": [["eth0", {"goto": jump}]]})
    for rule in ([{"jump": jump}], by_interface("eth0", jump=jump), by_name):
        healthy.answers["nft -j list ruleset"] = with_chains(ruleset(rule), user=[[{"jump": {"target": "deep"}}]],
                                                             deep=[accept(4420), [{"goto": jump}]])
        assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK], rule
        only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4421", ports=[4421])
    healthy.answers["nft -j list ruleset"] = with_chains(ruleset(accept(22)), user=[accept(4420)])
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", ports=[4420])
    healthy.answers["nft -j list ruleset"] = ruleset(vmap(port_key, {"set": [[22, {"accept": None}],
                                                                             [4420, {"drop": None}]]}))
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", ports=[4420])
    assert not [f for f in found(healthy, "firewall", ports=[22]) if f.level != OK]


def test_firewall_with_a_named_map(healthy) -> None:
    entries = json.loads(ruleset(vmap({"payload": {"protocol": "tcp", "field": "dport"}}, "@open")).out)["nftables"]
    entries.append({"map": {"family": "inet", "table": "filter", "name": "open", "elem": [[4420, {"accept": None}]]}})
    healthy.answers["nft -j list ruleset"] = Result(0, json.dumps({"nftables": entries}))
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4421", ports=[4421])


def test_firewall_trusts_an_interface(healthy) -> None:
    healthy.answers["nft -j list ruleset"] = ruleset(by_interface("eth0", accept=None))
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]
    healthy.answers["nft -j list ruleset"] = ruleset(by_interface({"set": ["lo", "eth0"]}, accept=None))
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]
    healthy.answers["nft -j list ruleset"] = ruleset(by_interface("et*", counter=None) + [{"accept": None}])
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]


NOT_EVERYTHING: list[list[dict]] = [
    by_interface("lo", accept=None),
    by_interface({"set": ["lo", "docker0"]}, accept=None),
    [{"xt": None}, {"accept": None}],
    [{"xt": {"type": "match", "name": "conntrack"}}, {"counter": {}}, {"accept": None}],
    [{"limit": {"rate": 5, "per": "second"}}, {"accept": None}],
    [{"ct count": {"val": 10}}, {"accept": None}],
    by_interface("lo", jump={"target": "all"}),
    by_interface("lo", jump={"target": "nvme"}),
    [{"xt": None}, {"jump": {"target": "all"}}],
    vmap({"meta": {"key": "iifname"}}, {"set": [["lo", {"goto": {"target": "all"}}]]}),
]


@pytest.mark.parametrize("rule", NOT_EVERYTHING)
def test_firewall_that_accepts_something_else(healthy, rule) -> None:
    healthy.answers["nft -j list ruleset"] = with_chains(ruleset(rule), all=[[{"accept": None}]], nvme=[accept(4420)])
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", ports=[4420])


def test_firewall_that_accepts_all_of_a_chain(healthy) -> None:
    for rule in ([{"jump": {"target": "all"}}], by_interface("eth0", goto={"target": "all"})):
        healthy.answers["nft -j list ruleset"] = with_chains(ruleset(rule), all=[[{"counter": {}}, {"accept": None}]])
        assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]


def test_firewall_and_port_by_the_port_map(healthy) -> None:
    healthy.write("/sys/class/infiniband/kiwarp0/settings/port_map", "4420:14420 3260:13260")
    healthy.answers["nft -j list ruleset"] = ruleset(accept(4420))
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 14420", ports=[4420])
    healthy.answers["nft -j list ruleset"] = ruleset(accept(14420))
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]
    listen(healthy, 3260)
    assert not [f for f in found(healthy, "port") if f.level != OK]
    listen(healthy, 13260)
    only(healthy, "port", WARNING, "has port 13260, which port 3260 is on the wire,",
         'kiwarp set kiwarp0 "port_map=4420:14420 3260:13261"', ports=[3260])


@pytest.mark.parametrize("rule", [
    accept(4420, "udp"), accept({"prefix": {"addr": 4416, "len": 12}}), accept("@nothing"), accept("nvme"),
    accept({"range": ["a", "b"]}), accept({"set": [{"concat": ["192.0.2.1", 4420]}]}),
])
def test_firewall_with_rules_of_other_kinds(healthy, rule) -> None:
    healthy.answers["nft -j list ruleset"] = ruleset(rule)
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", ports=[4420])


def test_firewall_any_transport(healthy) -> None:
    healthy.answers["nft -j list ruleset"] = ruleset(accept(4420, "th"))
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]


def test_firewall_refuses_only_what_a_rule_names(healthy) -> None:
    state = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "invalid"}}
    healthy.answers["nft -j list ruleset"] = ruleset([state, {"drop": None}], [{"limit": {"rate": 1}}, {"drop": None}],
                                                     policy="accept")
    assert not [f for f in found(healthy, "firewall", ports=[4420]) if f.level != OK]
    healthy.answers["nft -j list ruleset"] = ruleset([{"counter": {}}, {"log": None}, {"drop": None}], policy="accept")
    only(healthy, "firewall", WARNING, "no rule that accepts TCP port 4420", ports=[4420])


@pytest.mark.parametrize("out", ["no JSON", "[]", '{"nftables":[{"chain":{"hook":"input","policy":"drop"}}]}',
                                 '{"nftables":[7]}', '{"nftables":7}'])
def test_an_answer_of_another_form_ends_one_check(healthy, out) -> None:
    healthy.answers["nft -j list ruleset"] = Result(0, out)
    only(healthy, "firewall", WARNING, "could not be checked: ")
    assert found(healthy, "module") and found(healthy, "port", ports=[4420])


def test_firewall_of_iptables(healthy) -> None:
    healthy.answers["nft"] = Result(127)
    del healthy.answers["nft -j list ruleset"]
    healthy.answers["iptables -S INPUT"] = Result(0, "-P INPUT DROP\n")
    only(healthy, "firewall", NOTE, "iptables refuses some", "--dport PORT")


def test_firewall_of_the_other_iptables(healthy) -> None:
    healthy.answers["iptables-legacy -S INPUT"] = Result(0, "-P INPUT ACCEPT\n-A INPUT -j DROP\n")
    assert not [f for f in found(healthy, "firewall") if f.level != OK]
    healthy.write("/proc/net/ip_tables_names", "filter")
    only(healthy, "firewall", NOTE, "iptables-legacy refuses some", "iptables-legacy -I INPUT")


def test_firewall_is_root_s(healthy) -> None:
    healthy.root_user = False
    only(healthy, "firewall", NOTE, "shown to root only")


def listen(system, port: int) -> None:
    system.write("/proc/net/tcp", "  sl  local_address rem_address   st\n"
                 f"   0: 00000000:{port:04X} 00000000:0000 0A 0\n"
                 f"   1: 0100007F:1F90 0100007F:2000 01 0")


def test_port(healthy) -> None:
    listen(healthy, 3260)
    only(healthy, "port", NOTE, "a TCP service has port 3260, iSCSI's,", "port_map=3260:13260")
    listen(healthy, 60000)
    only(healthy, "port", WARNING, "a TCP service has port 60000", "port_map=60000:50000", ports=[60000])
    only(healthy, "port", NOTE, "nobody listens on port 8080", ports=[8080])
    healthy.answers["rdma -j resource show cm_id"] = Result(0, json.dumps(
        [{"ifname": "kiwarp0", "state": "LISTEN", "ps": "TCP", "src-addr": "0.0.0.0:60000"},
         {"ifname": "kiwarp0", "state": "CONNECT", "ps": "TCP", "src-addr": "192.0.2.1:7", "dst-addr": "192.0.2.2:9"}]))
    assert not [f for f in found(healthy, "port", ports=[60000]) if f.level != OK]


def test_port_mapper(healthy) -> None:
    healthy.write("/proc/77/comm", "iwpmd")
    only(healthy, "iwpmd", NOTE, "iwpmd runs", "systemctl disable --now iwpmd")
