# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the two guests of 93-guests both know: a server of all three kinds at 10.2.0.1.
# shellcheck source=nvme.sh
. "$(dirname "${BASH_SOURCE[0]}")/nvme.sh"
# shellcheck source=iser.sh
. "$(dirname "${BASH_SOURCE[0]}")/iser.sh"
# shellcheck source=nfs.sh
. "$(dirname "${BASH_SOURCE[0]}")/nfs.sh"

TIME_LIMIT=240
export NETDEV=eth0 TARGET=10.2.0.1 SERVER=10.2.0.1 CLIENTS=10.2.0.0/24
