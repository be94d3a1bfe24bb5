// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace kiwarp {

// Sleeps for so long, or until a signal. libc's nanosleep() is a cancellation point: a thread that
// is cancelled there would end in the middle of a verb, with the locks that it holds.
inline void nap(const timespec& time) { syscall(SYS_nanosleep, &time, nullptr); }

}  // namespace kiwarp
