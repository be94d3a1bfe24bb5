# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# A disk by two paths, with the commands of Documentation/scaling.md: the target at 10.1.0.1 on va
# and at 10.1.1.1 on vc, the host on vb and vd. An NVMe path is named by the target's address.
# shellcheck source=nvme.sh
. "$(dirname "${BASH_SOURCE[0]}")/nvme.sh"
# shellcheck source=iser.sh
. "$(dirname "${BASH_SOURCE[0]}")/iser.sh"
# shellcheck source=nfs.sh
. "$(dirname "${BASH_SOURCE[0]}")/nfs.sh"

export CLIENTS=10.1.0.0/16
export NETDEVS="va vc" TARGETS="10.1.0.1 10.1.1.1" OTHER_DISK=/dev/ram1
export HOST=nqn.2014-08.org.example:host1 QUEUES=1
export HOSTS="$HOST nqn.2014-08.org.example:host2"
first=10.1.0.1 second=10.1.1.1

# add_device NETDEV: again, after it was deleted.
add_device() { NETDEVS=$1 howto scaling devices && until_true 10 active "kw_$1"; }

# path_ctrl ADDRESS: the folder of the controller there.
path_ctrl() {
	local ctrl
	for ctrl in /sys/class/nvme/nvme*; do
		if grep -qs "traddr=$1," "$ctrl/address"; then
			echo "$ctrl"
			return
		fi
	done
	return 1
}

# path_ios ADDRESS: how many reads and writes the disk has done by this path: the first, or that of the
# namespace NSID.
path_ios() {
	local stat ctrl
	ctrl=$(path_ctrl "$1") && read -ra stat < <(cat "$ctrl"/nvme*c*n"${NSID-1}"/stat) &&
		echo $((stat[0] + stat[4]))
}

path_is() { # ADDRESS STATE
	local ctrl
	ctrl=$(path_ctrl "$1") && ctrl_is "$ctrl/state" "$2"
}

path_becomes() { until_true 60 path_is "$@" || { echo "path $1 is not $2"; nvme list-subsys; return 1; }; }

no_path() { ! path_ctrl "$1"; }

ana_is() { # ADDRESS STATE
	local ctrl
	ctrl=$(path_ctrl "$1") && [ "$(cat "$ctrl"/nvme*c*n1/ana_state)" = "$2" ]
}

# live_paths COUNT: of the disk, as nvme-cli has it.
live_paths() {
	nvme list-subsys -o json >"$LOGS/subsystems.json" || return
	cat "$LOGS/subsystems.json"
	python3 - "$LOGS/subsystems.json" "$NQN" "$1" <<-'END'
		import json
		import sys

		with open(sys.argv[1], encoding="utf-8") as file:
		    hosts = json.load(file)
		paths = [path for host in hosts for subsystem in host["Subsystems"]
		         if subsystem["NQN"] == sys.argv[2] for path in subsystem["Paths"]]
		live = [path for path in paths if path["State"] == "live"]
		sys.exit(len(paths) != int(sys.argv[3]) or live != paths)
	END
}

uses() { grows path_ios "$1" || { echo "path $1 is not used"; return 1; }; }

uses_both() { uses "$first" && uses "$second"; }

# uses_only USED IDLE: many requests by the one, none by the other, once what was on its way there has
# been done.
uses_only() {
	local before
	more_by "$1" || return
	before=$(path_ios "$2")
	more_by "$1" || return
	[ "$(path_ios "$2")" = "$before" ] || { echo "path $2 is used, too"; return 1; }
}

# more_by ADDRESS: a hundred requests.
more_by() {
	local before
	before=$(path_ios "$1") || return
	until_true 30 is_more $((before + 100)) path_ios "$1" || { echo "path $1 is hardly used"; return 1; }
}
