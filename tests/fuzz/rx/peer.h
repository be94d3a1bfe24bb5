// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include "config.h"

namespace rx {

// The peer's data: the rest of the input as it is, or FPDUs that records of six bytes describe. A
// record's FPDU is valid but for what the record says. Valid until the next call.
const shim::Bytes& peerStream(const Config& config, Input& in);

// What the stream sent: FPDUs, with valid markers and CRCs, and nothing behind a Terminate.
void checkSent(const Config& config, const shim::Bytes& sent);

}  // namespace rx
