// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "badinput/harness.h"

namespace kiwarp::vm {

void addCqCases(std::vector<Case>* cases);
// exporter: kiwarp_ktest's, or empty. debian: the kernel has to have Debian's exporters.
void addDmabufCases(std::vector<Case>* cases, const std::string& exporter, bool debian);
void addDomainCases(std::vector<Case>* cases);
void addMrCases(std::vector<Case>* cases);
void addPollCases(std::vector<Case>* cases);
// extensions_on: whether the settings of RFC 7306 have to be.
void addPostCases(std::vector<Case>* cases, bool extensions_on);

}  // namespace kiwarp::vm
