// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

namespace kiwarp::bench {

// What a kernel takes for the things that messages are made of; prints nanoseconds of each, the
// least of many rounds. By it a kernel that is a process is compared with a real one.
int runBasics();

}  // namespace kiwarp::bench
