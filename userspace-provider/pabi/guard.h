// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiwarp::pabi {

// Whether a libibverbs whose real path is this has the layout that was compiled in.
bool isKnownLibrary(std::string_view real_path);

// What /proc/PID/maps has behind the name of a file that is no longer there.
inline constexpr std::string_view kDeleted = " (deleted)";

// The file of the mapping that this line of /proc/PID/maps is about, if the address is in it; empty
// if it is of no file.
std::optional<std::string_view> mappedFile(std::string_view line, std::uintptr_t address);

// Whether the libibverbs of this process has it; says on stderr why not.
bool libraryIsKnown();

}  // namespace kiwarp::pabi
