# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The modules of the command kiwarp."""

VERSION = "0.2"
