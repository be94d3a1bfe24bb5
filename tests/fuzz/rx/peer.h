// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include "config.h"

namespace rx {

// What the peer sends: the rest of the input as it is, or FPDUs that records of six bytes
// describe. A record's FPDU is a right one but for what the record says.
shim::Bytes peerStream(const Config& config, Input& in);

// What the stream sent: FPDUs, markers and CRCs right, nothing behind a Terminate.
void checkSent(const Config& config, const shim::Bytes& sent);

}  // namespace rx
