# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# rdma-core's own tests, which the package python3-pyverbs has among its documentation. To be sourced
# after lib.sh.

unpack_pyverbs() {
	cp -r /usr/share/doc/rdma-core/tests /run/tests || die "python3-pyverbs is installed without its tests"
	gunzip /run/tests/*.gz
}

# run_pyverbs NAME NAMESPACE ADDRESS ONLY LIST...: those whose names match ONLY. The lists have what is
# left out.
run_pyverbs() {
	local name=$1 ns=$2 address=$3 only=$4
	shift 4
	absorb "$name" ip netns exec "$ns" python3 "$TOP/tests/vm/pyverbs/run.py" --tests /run --dev "d$ns" \
		--address "$address" --only "$only" --left-out "${@/#/$TOP/tests/vm/pyverbs/}"
}
