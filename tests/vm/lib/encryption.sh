# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# WireGuard, IPsec and TLS on the wire of make_net, with the commands of Documentation/encryption.md where
# they fit. The ends are called a and b. To be sourced after lib.sh and howto.sh.

KEYS=/run/keys
# The page's addresses outside the tunnel, but for the last digit: or fd01::
outside=10.1.0.
# TLS: the ports that go through the relays.
tls_ports=7174

other_end() { [ "$1" = a ] && echo b || echo a; }
number() { [ "$1" = a ] && echo 1 || echo 2; }

# at END BLOCK [NS]: a block of the page at one end, in the namespace of its name or in NS.
at() {
	local end=$1 block=$2 here there
	here=$(number "$end") there=$(number "$(other_end "$end")")
	export HERE=$outside$here THERE=$outside$there INSIDE=10.20.0.$here INSIDE6=fd20::$here
	export PEER=10.20.0.$there PEER6=fd20::$there KEY=$KEYS/$end DEVICE=kw_wg_$end PEER_KEY
	export RELAY=$KEYS/relay-$end PORTS=$tls_ports
	PEER_KEY=$(cat "$KEYS/$(other_end "$end").pub" 2>/dev/null || echo none)
	# As the page has it.
	[[ $block != wireguard || $THERE != *:* ]] || THERE="[$THERE]"
	howto encryption "$block" "${3:-$end}"
}

# udev, which guests are without, loads what the processor has instructions for.
encryption_modules() {
	modprobe -a aesni_intel wireguard esp4 esp6 xfrm_user xfrm_algo authenc gcm rfc4106 2>/dev/null
	mkdir -p $KEYS
}

# wg_end END NS NETDEV ENDPOINT: a tunnel's key and its peer, which may have any address inside.
wg_end() {
	in_ns "$2" wg set "$3" private-key "$KEYS/$1" listen-port 51820 peer "$(cat "$KEYS/$(other_end "$1").pub")" \
		endpoint "$4:51820" allowed-ips 0.0.0.0/0,::/0
}

# inside_wireguard: va and vb of make_net become tunnels with the same addresses, over a wire with others.
inside_wireguard() {
	local ns
	encryption_modules
	for ns in a b; do
		at $ns keys || return
		ip -n $ns link set v$ns down name o$ns && ip -n $ns addr flush dev o$ns &&
			ip -n $ns addr add "10.9.0.$(number $ns)/24" dev o$ns && ip -n $ns link set o$ns up || return
	done
	for ns in a b; do
		# The numbers differ, as those of make_net do.
		ip -n $ns link add v$ns index "20$(number $ns)" type wireguard &&
			wg_end $ns $ns v$ns "10.9.0.$(number "$(other_end $ns)")" &&
			ip -n $ns addr add "10.1.0.$(number $ns)/24" dev v$ns && ip -n $ns link set v$ns up || return
	done
}

# inside_ipsec: TCP on the wire of make_net is encrypted from here on.
inside_ipsec() {
	encryption_modules
	at a ipsec && at b ipsec
}

# esp_bytes: how many each association has had, the least of them.
esp_bytes() {
	in_ns "$1" ip -s xfrm state | sed -nE 's/^[[:space:]]+([0-9]+)\(bytes\).*/\1/p' | sort -n | head -n 1
}

# tls_keys END: what the page has its readers copy to the other machine.
tls_keys() { at "$1" tls-keys && cp "$KEYS/relay-$1.pem" "$KEYS/relay-$(other_end "$1").peer.pem"; }

# tls_begins END, tls_ends END [SIGNAL]: the relay alone, without what leads connections to it.
tls_begins() { at "$1" tls && wait_listen "$1" 841 && wait_listen "$1" 842; }
tls_ends() { kill "${2:--TERM}" "$(cat "/run/stunnel4/relay-$1.pid")" && until_true 20 tls_has_ended "$1"; }
tls_has_ended() { ! listening "$1" 841 && ! listening "$1" 842; }

# inside_tls_relays PORTS: what is between the ends of make_net on these ports goes through relays.
inside_tls_relays() {
	local ns tls_ports=$1
	encryption_modules
	for ns in a b; do tls_keys $ns || return; done
	for ns in a b; do at $ns tls-redirect && tls_begins $ns || return; done
}
