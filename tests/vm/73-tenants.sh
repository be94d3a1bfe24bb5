#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --smp 1 --timeout 600
#
# Tenants of one host: what an ordinary user, or somebody on the network, can take from the others.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

tenants=$TOP/build/host/tests/vm/kiwarp-tenants

setup_pair
absorb "completion events" setpriv --reuid=2000 --regid=2000 --clear-groups \
	"$tenants" --device da --events
teardown_pair
finish
