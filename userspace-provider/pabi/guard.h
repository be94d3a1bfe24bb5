// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

namespace kiwarp::pabi {

// Whether a libibverbs whose real path is this has the layout that was compiled in.
bool isKnownLibrary(const char* real_path);

// Whether the libibverbs of this process has it; says on stderr why not.
bool libraryIsKnown();

}  // namespace kiwarp::pabi
