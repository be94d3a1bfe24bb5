# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The cases of all modules, each a test."""
import pytest

import cases_adapters  # noqa: F401  (registers cases, as do the others)
import cases_errors  # noqa: F401
import cases_ext  # noqa: F401
import cases_good  # noqa: F401
import cases_markers  # noqa: F401
import cases_negotiate  # noqa: F401
import cases_reads  # noqa: F401
import cases_rev0  # noqa: F401
import cases_srq  # noqa: F401
import cases_start  # noqa: F401
import cases_teardown  # noqa: F401
import cases_terminate  # noqa: F401
import cases_windows  # noqa: F401
from harness import CASES


@pytest.mark.parametrize("function", [pytest.param(function, id=name) for name, function in CASES])
def test_peer(env, function):
    env.run(function)
