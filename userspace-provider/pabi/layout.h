// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The layout that CMake chose for the installed libibverbs.
#pragma once

#ifndef KIWARP_PABI_LAYOUT
#error "KIWARP_PABI_LAYOUT must name a header of pabi/, as CMakeLists.txt does"
#endif
#include KIWARP_PABI_LAYOUT
