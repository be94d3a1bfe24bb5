// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "badinput/harness.h"

namespace kiwarp::vm {

void addCqCases(std::vector<Case>* cases);
// exporter: kiwarp_ktest's, or empty.
void addDmabufCases(std::vector<Case>* cases, const std::string& exporter);
void addDomainCases(std::vector<Case>* cases);
void addMrCases(std::vector<Case>* cases);
void addPollCases(std::vector<Case>* cases);
void addPostCases(std::vector<Case>* cases);

}  // namespace kiwarp::vm
