# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""doctor's checks of interfaces and of the way to the peer."""
from __future__ import annotations

import json
import re
from typing import Iterator, Optional, Sequence

from . import devices
from .findings import ERROR, NOTE, OK, WARNING, Finding, Question
from .system import Failure, System, listing

NET = devices.NET
# Ports that services use for TCP and for RDMA alike, of which one at a time can listen.
Interfaces = Sequence[Optional[str]]
SHARED_PORTS = {3260: "iSCSI", 4420: "NVMe", 445: "SMB"}


def interface(system: System, _question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    for device in found:
        if not device.interface:
            continue
        name = device.interface
        flags = int(system.read(f"{NET}/{name}/flags") or "0", 16)
        if not flags & 1:
            yield Finding("interface", ERROR, f"{name}, of {device.name}, is down", f"ip link set {name} up")
        elif system.read(f"{NET}/{name}/carrier") == "0":
            yield Finding("interface", ERROR, f"{name}, of {device.name}, has no carrier",
                          "look at the cable, the switch or the other end")
        elif not addresses(system, name):
            yield Finding("interface", ERROR, f"{name}, of {device.name}, has no IP address but link-local ones: "
                          "connections are made by them",
                          f"ip address add ADDRESS/LENGTH dev {name}, or what sets up the network here")
        else:
            yield Finding("interface", OK, f"{name}, of {device.name}, is up and has an address")


def addresses(system: System, name: str) -> list[str]:
    result = system.run("ip", "-j", "address", "show", "dev", name)
    if result.code:
        raise Failure(f"ip address show: {result.said}")
    # rdma_cm takes link-local addresses only with their interface's number, which few programs give.
    return [info.get("local", "") for link in json.loads(result.out or "[]") for info in link.get("addr_info", [])
            if info.get("scope") != "link"]


def namespace(system: System, _question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    for device in found:
        if not device.interface:
            yield Finding("namespace", WARNING, f"the interface of {device.name} is in another network namespace: "
                          "programs here can not connect by it",
                          "run them in the interface's: ip netns exec NAMESPACE COMMAND")


def mtu(system: System, question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    for device in found:
        if not device.interface:
            continue
        wrong = list(mtu_mismatches(system, device.interface))
        yield from wrong or [Finding("mtu", OK, f"{device.interface}: nothing near it has another MTU")]
    if question.peer:
        yield from mtu_to_peer(system, question.peer)


def mtu_of(system: System, name: str) -> int:
    return int(system.read(f"{NET}/{name}/mtu") or "0")


def mtu_mismatches(system: System, name: str) -> Iterator[Finding]:
    """What is below an interface must take its packets; what is at the other end, too."""
    own = mtu_of(system, name)
    below = [entry.removeprefix("lower_") for entry in system.names(f"{NET}/{name}") if entry.startswith("lower_")]
    for lower in below:
        if mtu_of(system, lower) < own:
            yield mismatch(name, own, lower, mtu_of(system, lower), "below it")
    end = other_end(system, name)
    if end and end not in below and mtu_of(system, end) != own:
        yield mismatch(name, own, end, mtu_of(system, end), "its other end")


def other_end(system: System, name: str) -> str | None:
    """Of a veth pair, if that end is in this namespace too."""
    index, other = (system.read(f"{NET}/{name}/{file}") for file in ("ifindex", "iflink"))
    if index == other:
        return None
    return next((end for end in system.names(NET) if system.read(f"{NET}/{end}/ifindex") == other
                 and system.read(f"{NET}/{end}/iflink") == index), None)


def mismatch(name: str, own: int, other: str, others: int, what: str) -> Finding:
    return Finding("mtu", WARNING, f"{name} has MTU {own}, {other}, {what}, {others}: long packets are lost",
                   f"the same for both: ip link set {other} mtu {own}, or {name} mtu {others}; switches have to take "
                   "it, too")


def mtu_to_peer(system: System, peer: str) -> Iterator[Finding]:
    way = route_to(system, peer)
    size = mtu_of(system, way)
    # Headers: 20 of IP or 40 of IPv6, 8 of ICMP.
    payload = min(size, 65535) - (48 if ":" in peer else 28)
    answer = system.run("ping", "-n", "-c", "1", "-W", "2", peer)
    if answer.code == 127:
        yield Finding("mtu", WARNING, "ping is not installed: the way's MTU can not be tried",
                      "apt install iputils-ping")
    elif answer.code:
        yield Finding("mtu", WARNING, f"{peer} does not answer ping: the way's MTU can not be tried")
    elif system.run("ping", "-n", "-c", "2", "-W", "2", "-M", "do", "-s", str(payload), peer).code:
        yield Finding("mtu", ERROR,
                      f"packets of {size} bytes, the MTU of {way}, do not arrive at {peer}; short ones do",
                      "the same MTU for both hosts and for all switches between them")
    else:
        yield Finding("mtu", OK, f"packets of {size} bytes arrive at {peer}")


def route_to(system: System, peer: str) -> str:
    result = system.run("ip", "-j", "route", "get", peer)
    if result.code:
        raise Failure(f"no route to {peer}: {result.said}")
    found = json.loads(result.out)[0]
    if found.get("type") != "local":
        return found["dev"]
    # Packets to an own address go by lo, but connections by the device of the address's interface.
    own = system.run("ip", "-j", "address", "show", "to", peer)
    return next((link["ifname"] for link in json.loads(own.out or "[]") if link), found["dev"])


def route(system: System, question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    if not question.peer:
        return
    try:
        way = route_to(system, question.peer)
    except Failure as failure:
        yield Finding("route", ERROR, str(failure), "ip route get ADDRESS has to name the device's interface")
        return
    other = devices.on_interface(system, way)
    if way in [device.interface for device in found]:
        yield Finding("route", OK, f"the way to {question.peer} is {way}, which has a device")
    elif other:
        asked = listing([device.name for device in found]) or question.device
        yield Finding("route", ERROR, f"the way to {question.peer} is {way}, which has {other.name}, not {asked}",
                      f"use {other.name}, or another route")
    else:
        yield Finding("route", ERROR, f"the way to {question.peer} is {way}, which has no device",
                      f"kiwarp add {way}, or another route")


def firewall(system: System, question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    if not system.is_root():
        yield Finding("firewall", NOTE, "its rules are shown to root only", "sudo kiwarp doctor")
        return
    ports = sorted({wire for number in question.ports for wire in wire_ports(system, number, found)})
    # iptables-nft's rules are among nftables'. The other iptables has tables of its own, if it was ever used.
    result = system.run("nft", "-j", "list", "ruleset")
    if result.code == 127:
        yield from firewall_iptables(system, "iptables", "ip6tables")
        return
    if system.read("/proc/net/ip_tables_names") or system.read("/proc/net/ip6_tables_names"):
        yield from firewall_iptables(system, "iptables-legacy", "ip6tables-legacy")
    if result.code:
        raise Failure(f"nft list ruleset: {result.said}")
    entries = json.loads(result.out or "{}").get("nftables", [])
    closed = [entry["chain"] for entry in entries if entry.get("chain", {}).get("hook") == "input" and
              blocks(entry["chain"], entries)]
    for chain in closed:
        yield from closed_chain(chain, entries, ports, [device.interface for device in found])
    if not closed:
        yield Finding("firewall", OK, "no chain of nftables refuses all that it has no rule for")


def wire_ports(system: System, number: int, found: list[devices.Device]) -> set[int]:
    """The TCP ports that a service's port is, with the port maps of these devices."""
    return {devices.wire_port(system, device.name, number) for device in found} or {number}


def rules_of(chain: dict, entries: list[dict]) -> list[dict]:
    return [entry["rule"] for entry in entries if "rule" in entry and all(
        entry["rule"].get(key) == chain[other] for key, other in (("family", "family"), ("table", "table"),
                                                                  ("chain", "name")))]


def blocks(chain: dict, entries: list[dict]) -> bool:
    """Whether it refuses what no rule accepts. A rule with a match or a limit refuses only some of that."""
    refusing = ({statement for part in rule.get("expr", []) for statement in part}
                for rule in rules_of(chain, entries))
    return chain.get("policy") == "drop" or any(
        statements & {"drop", "reject"} and statements <= {"drop", "reject", "counter", "log"}
        for statements in refusing)


def reached(chain: dict, entries: list[dict], interfaces: Interfaces) -> Iterator[tuple[dict, bool]]:
    """The rules that take packets of these interfaces, of a chain and of those that it may go on in, as ufw and
    firewalld lay them out; and whether all their packets get to that rule."""
    left, seen = [(chain["name"], True)], {(chain["name"], True)}
    while left:
        name, certain = left.pop()
        for rule in rules_of({**chain, "name": name}, entries):
            if is_of_others(rule, interfaces):
                continue
            yield rule, certain
            for verdict in verdicts(rule, chain, entries, interfaces):
                target = next((verdict[kind]["target"] for kind in ("jump", "goto") if kind in verdict), None)
                found = (target, certain and takes_all(rule))
                if target and found not in seen:
                    seen.add(found)
                    left.append(found)


def verdicts(rule: dict, chain: dict, entries: list[dict], interfaces: Interfaces) -> Iterator[dict]:
    """What becomes of a packet by this rule: its own verdict, and those of a map."""
    for part in rule.get("expr", []):
        yield part
        if "vmap" in part:
            by_interface = is_interface(part["vmap"].get("key"))
            yield from (verdict for key, verdict in mapped(part["vmap"].get("data"), chain, entries)
                        if not by_interface or names_one(key, interfaces))


def mapped(data: object, chain: dict, entries: list[dict]) -> list:
    """A verdict map's keys and verdicts."""
    if isinstance(data, str) and data.startswith("@"):
        return elements("map", data[1:], chain, entries)
    return data.get("set", []) if isinstance(data, dict) else []


def is_port(left: object) -> bool:
    payload = left.get("payload", {}) if isinstance(left, dict) else {}
    # "th" is the header of any transport protocol.
    return payload.get("protocol") in ("tcp", "th") and payload.get("field") == "dport"


def is_interface(left: object) -> bool:
    meta = left.get("meta", {}) if isinstance(left, dict) else {}
    return meta.get("key") in ("iif", "iifname")


def names_one(right: object, interfaces: Interfaces) -> bool:
    """Whether an expression names one of these interfaces, by itself, in a set, or by a name that ends in "*"."""
    if isinstance(right, dict):
        return any(names_one(one, interfaces) for one in right.get("set", []))
    return isinstance(right, str) and any(name and (name == right or right.endswith("*") and
                                                    name.startswith(right[:-1])) for name in interfaces)


def is_of_others(rule: dict, interfaces: Interfaces) -> bool:
    """Whether it takes no packet of these interfaces."""
    matches = [part["match"] for part in rule.get("expr", []) if "match" in part]
    return any(names_one(match.get("right"), interfaces) == (match.get("op") == "!=")
               for match in matches if is_interface(match.get("left")))


def takes_all(rule: dict) -> bool:
    """Whether a rule that is not of others takes all their packets. A limit, or what iptables-nft has for conntrack,
    is no "match", but no verdict either."""
    return all({"accept", "jump", "goto", "counter", "log", "vmap"} & part.keys() or
               is_interface(part.get("match", {}).get("left")) for part in rule.get("expr", []))


def accepted_ports(chain: dict, entries: list[dict], interfaces: Interfaces) -> Iterator[range]:
    """Those that some rule accepts, of whatever hosts."""
    for rule, certain in reached(chain, entries, interfaces):
        parts = rule.get("expr", [])
        for part in parts:
            if "vmap" in part and is_port(part["vmap"].get("key")):
                for key, verdict in mapped(part["vmap"].get("data"), chain, entries):
                    yield from ports_in(key, chain, entries) if "accept" in verdict else ()
        if not any("accept" in part for part in parts):
            continue
        if certain and takes_all(rule):
            yield range(65536)
        for match in (part["match"] for part in parts if "match" in part):
            if is_port(match.get("left")) and match.get("op") in ("==", "in"):
                yield from ports_in(match.get("right"), chain, entries)


def ports_in(right: object, chain: dict, entries: list[dict]) -> Iterator[range]:
    """Of libnftables-json(5)'s expressions those that name ports: a number, a range, sets of them."""
    if isinstance(right, int):
        yield range(right, right + 1)
    elif isinstance(right, str) and right.startswith("@"):
        for one in elements("set", right[1:], chain, entries):
            yield from ports_in(one, chain, entries)
    elif isinstance(right, dict) and "range" in right:
        first, last = right["range"]
        if isinstance(first, int) and isinstance(last, int):
            yield range(first, last + 1)
    elif isinstance(right, dict) and "set" in right:
        for one in right["set"]:
            yield from ports_in(one, chain, entries)
    elif isinstance(right, dict) and "elem" in right:
        # An element that has a comment or a timeout.
        yield from ports_in(right["elem"]["val"], chain, entries)


def elements(kind: str, name: str, chain: dict, entries: list[dict]) -> list:
    """Those of a named set or map. It is of the chain's table."""
    key = {"family": chain["family"], "table": chain["table"], "name": name}
    return [one for entry in entries if kind in entry and key.items() <= entry[kind].items()
            for one in entry[kind].get("elem", [])]


def closed_chain(chain: dict, entries: list[dict], ports: list[int],
                 interfaces: Interfaces) -> Iterator[Finding]:
    where = f"{chain['family']} {chain['table']} {chain['name']}"
    open_ports = list(accepted_ports(chain, entries, interfaces))
    for number in ports:
        if any(number in ports_of for ports_of in open_ports):
            yield Finding("firewall", OK, f"the chain {where} of nftables accepts TCP port {number}")
        else:
            yield Finding("firewall", WARNING,
                          f"the chain {where} of nftables has no rule that accepts TCP port {number}",
                          f"nft insert rule {where} tcp dport {number} accept, or what sets up the firewall here")
    if not ports:
        yield Finding("firewall", NOTE, f"the chain {where} of nftables refuses what it has no rule for: an RDMA "
                      "service is a TCP port to it", "accept its port; kiwarp doctor --port PORT looks whether it is")


def firewall_iptables(system: System, *programs: str) -> Iterator[Finding]:
    for program in programs:
        result = system.run(program, "-S", "INPUT")
        if result.code == 0 and re.search(r"^-P INPUT DROP|-j (DROP|REJECT)", result.out, re.M):
            yield Finding("firewall", NOTE, f"{program} refuses some of what comes in: an RDMA service is a TCP port "
                          "to it", f"{program} -I INPUT -p tcp --dport PORT -j ACCEPT")


def listeners(system: System) -> set[int]:
    """The TCP ports that somebody listens on, RDMA services' among them."""
    found = set()
    for file in ("tcp", "tcp6"):
        for line in (system.read(f"/proc/net/{file}") or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == "0A":
                found.add(int(words[1].rpartition(":")[2], 16))
    return found


def rdma_listeners(system: System) -> set[int]:
    result = system.run("rdma", "-j", "resource", "show", "cm_id")
    if result.code:
        raise Failure(f"rdma resource show cm_id: {result.said}")
    # An address is "192.0.2.1:4420".
    sources = [entry.get("src-addr", "") for entry in json.loads(result.out or "[]") if entry.get("state") == "LISTEN"]
    return {int(number) for number in (source.rpartition(":")[2] for source in sources) if number.isdecimal()}


def port(system: System, question: Question, found: list[devices.Device]) -> Iterator[Finding]:
    if not found:
        return
    taken = listeners(system)
    serving = rdma_listeners(system)
    for number in question.ports or SHARED_PORTS:
        wires = wire_ports(system, number, found)
        if number in serving:
            yield Finding("port", OK, f"an RDMA service listens on port {number}")
        elif wires & taken:
            device = next(d for d in found if devices.wire_port(system, d.name, number) in taken)
            yield taken_port(system, number, device, WARNING if question.ports else NOTE)
        elif question.ports:
            yield Finding("port", NOTE, f"nobody listens on port {number}", "start the service")


def taken_port(system: System, number: int, device: devices.Device, level: str) -> Finding:
    wire = devices.wire_port(system, device.name, number)
    service = f", {SHARED_PORTS[number]}'s," if number in SHARED_PORTS else ""
    if wire != number:
        service = f", which port {number} is on the wire,"
    other = number + 10000 if number < 50000 else number - 10000
    if other == wire:
        other += 1
    # The setting is the whole map.
    pairs = [pair for pair in devices.port_map(system, device.name) if pair.split(":")[0] != str(number)]
    ports = " ".join([*pairs, f"{number}:{other}"])
    return Finding("port", level, f"a TCP service has port {wire}{service} where no RDMA service can listen then: it "
                   "gets EADDRINUSE", f'another port, or on both sides: kiwarp set {device.name} "port_map={ports}"')


def port_mapper(system: System, _question: Question, _found: list[devices.Device]) -> Iterator[Finding]:
    running = any(system.read(f"/proc/{process}/comm") == "iwpmd" for process in system.names("/proc")
                  if process.isdecimal())
    if running:
        yield Finding("iwpmd", NOTE, "iwpmd runs: where it does not at a peer, each connection waits up to ten seconds",
                      "run it on all hosts or on none: systemctl disable --now iwpmd")
    else:
        yield Finding("iwpmd", OK, "iwpmd does not run, and Kiwarp needs none")
