// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <functional>
#include <string>

namespace kiwarp::vm {

// Cases of a program, run by GoogleTest and told as TAP.

// A case that fails by throwing a Failure. Cases run in the order in which they were added.
void addCase(const std::string& name, const std::function<void()>& body);

// What --gtest_... options ask for is taken out of the arguments. Call it before any other use.
void initCases(int* argc, char** argv);

// Runs all that were added. 0 if all of them passed.
int runCases();

}  // namespace kiwarp::vm
