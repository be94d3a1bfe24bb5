#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --uml --mem 1024
#
# rdma-core's own tests of libibverbs and librdmacm, which the package python3-pyverbs has among its
# documentation, on two devices. Those that cannot pass on an iWARP device are in a list.
# ONLY: a regular expression of test names.
# shellcheck source=../lib/lib.sh
. "$(dirname "$0")/../lib/lib.sh"

pyverbs=$TOP/tests/vm/pyverbs

run() { # NAMESPACE ADDRESS
	absorb "d$1" ip netns exec "$1" python3 "$pyverbs/run.py" --tests /run --dev "d$1" \
		--address "$2" --left-out "$pyverbs/left-out.list" --only "${ONLY:-}"
}

cp -r /usr/share/doc/rdma-core/tests /run/tests || die "python3-pyverbs is installed without its tests"
gunzip /run/tests/*.gz
setup_pair
echo 1 | tee /sys/class/infiniband/d[ab]/settings/{immediate,atomics} >/dev/null
run a 10.1.0.1
run b 10.1.0.2
teardown_pair
finish
