#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --mem 3072 --timeout 2700
#
# Two minutes of scripts/chaos, and more where those are not enough for each call to succeed once, in
# Debian's kernel with the iw_cm and rdma_ucm of RDMA_CM_KO: without, any process can crash it. Another
# SEED each day.
export MINUTES=${MINUTES:-2} SEED=${SEED:-$(date +%Y%m%d)} LONGEST=15 PROCESSES=2 NVME_STAYS=1
[ -n "${RDMA_CM_KO:-}" ] || { echo "1..0 # no RDMA_CM_KO"; exit 1; }
exec "$(dirname "$0")/../chaos/run.sh"
