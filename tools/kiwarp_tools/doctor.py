# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""kiwarp doctor: what usually goes wrong, and what to do."""
from __future__ import annotations

from typing import Callable, Iterable

from . import checks_kernel, checks_network, checks_programs, devices
from .findings import ERROR, NOTE, OK, WARNING, Finding, Question
from .system import Failure, System

__all__ = ["Finding", "Question", "examine", "exit_code", "print_findings"]

Check = Callable[[System, Question, list[devices.Device]], Iterable[Finding]]

CHECKS: list[tuple[str, Check]] = [
    ("module", checks_kernel.module),
    ("devices", checks_kernel.present),
    ("persistence", checks_kernel.persistence),
    ("verbs", checks_programs.verbs),
    ("provider", checks_programs.provider),
    ("rdmav-drivers", checks_programs.rdmav_drivers),
    ("memlock", checks_programs.memlock),
    ("interface", checks_network.interface),
    ("namespace", checks_network.namespace),
    ("mtu", checks_network.mtu),
    ("route", checks_network.route),
    ("firewall", checks_network.firewall),
    ("port", checks_network.port),
    ("iwpmd", checks_network.port_mapper),
]


def examine(system: System, question: Question) -> list[Finding]:
    try:
        found = [devices.find(system, question.device)] if question.device else devices.devices(system)
    except Failure as failure:
        # The checks that need none may say why there is none.
        return [Finding("devices", ERROR, str(failure)), *examine_devices(system, question, [])]
    return examine_devices(system, question, found)


def examine_devices(system: System, question: Question, found: list[devices.Device]) -> list[Finding]:
    findings: list[Finding] = []
    for name, check in CHECKS:
        try:
            findings += check(system, question, found)
        except Failure as failure:
            findings.append(Finding(name, WARNING, f"could not be checked: {failure}"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # A program's output is not of the form that is known. What the others find counts all the same.
            findings.append(Finding(name, WARNING, f"could not be checked: {type(error).__name__}: {error}"))
    return findings


def exit_code(findings: list[Finding]) -> int:
    return int(any(finding.level == ERROR for finding in findings))


def print_findings(findings: list[Finding], every: bool) -> None:
    for finding in findings:
        if finding.level != OK or every:
            print(f"{finding.level:7} {finding.check}: {finding.text}")
            if finding.advice:
                print(f"{'':7} -> {finding.advice}")
    count = {level: sum(f.level == level for f in findings) for level in (ERROR, WARNING, NOTE)}
    print(", ".join(f"{number} {level}{'s' if number != 1 else ''}" for level, number in count.items()))
