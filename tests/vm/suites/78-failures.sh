#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Each allocation and each user copy of each call fails in turn: see ../faults/run.sh.
# guest: --uml --mem 3072
exec "$(dirname "$0")/../faults/run.sh"
