#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --uml --mem 1024
#
# rdma-core's own tests of libibverbs and librdmacm on two devices. Those that cannot pass on an iWARP
# device are in a list.
# ONLY: a regular expression of test names.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"
# shellcheck source=../lib/pyverbs.sh
. "$(dirname "$0")/../lib/pyverbs.sh"

unpack_pyverbs
setup_pair
echo 1 | tee /sys/class/infiniband/d[ab]/settings/{immediate,atomics} >/dev/null
run_pyverbs da a 10.1.0.1 "${ONLY:-}" left-out.list uml.list
run_pyverbs db b 10.1.0.2 "${ONLY:-}" left-out.list uml.list
teardown_pair
finish
