# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# What the two guests of 98-hosts both know: a target at 10.1.0.1 for the host that is in its own guest,
# and at 10.2.0.1 for the host in the other, with the commands of Documentation/scaling.md. What one
# guest has to know of the other are words, each one line on a TCP connection.
# shellcheck source=multipath.sh
. "$(dirname "${BASH_SOURCE[0]}")/multipath.sh"

TIME_LIMIT=240
# Where the second host does its I/O, and writes its mark.
second_area=32m second_mark=64

# hear_words: from here on the other guest's words are taken.
hear_words() {
	LIMIT=1400 start words - python3 -c '
import socket
with socket.create_server(("", 4421)) as server:
    while True:
        caller, _ = server.accept()
        with caller:
            print(caller.recv(16).decode().strip(), flush=True)'
	words=$server_log
	wait_listen - 4421
}

hear() { until_true 60 grep -qx "$1" "$words" || { echo "the other guest has not said $1"; return 1; }; }

tell() { until_true 60 say "$@" || { echo "the other guest does not listen"; return 1; }; }

say() { echo "$2" >"/dev/tcp/$1/4421"; }

# own_connections ADDRESS: the ports that this host's connections to there have at its end.
own_connections() {
	ss -Htn state established "dst $1 and dport = :$PORT" | awk '{ print $3 }' | sort
}

# one_io_queue: and one for administration.
one_io_queue() {
	local count
	count=$(cat "$(nvme_ctrl)/queue_count")
	echo "queues: $count"
	[ "$count" = 2 ]
}

# mark: a block that this host writes, or that another has written.
mark() { fio_nvme --name=mark --offset="${second_mark}m" --size=64k --bs=64k --verify=crc32c "$@"; }
