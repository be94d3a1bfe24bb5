#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# guest: --mem 3072
#
# Three minutes of scripts/chaos, in Debian's kernel with KFENCE: what processes and a kernel consumer
# do at random leaves no report of the kernel, and nothing behind. RDMA_CM_KO: the folder of
# scripts/rdma-cm, since with an unpatched iw_cm processes crash any kernel.
MINUTES=${MINUTES:-3} SEED=${SEED:-$((RANDOM * 32768 + RANDOM))}
[ -n "${RDMA_CM_KO:-}" ] || { echo "not ok 1 - RDMA_CM_KO is missing"; echo 1..1; exit 1; }
# shellcheck source=../chaos/run.sh
. "$(dirname "$0")/../chaos/run.sh"
