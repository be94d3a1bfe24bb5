// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/queue_table.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace kiwarp::test {
namespace {

// Distinct rings to tell entries apart by.
WorkRing* ringOf(uint64_t i) {
  return reinterpret_cast<WorkRing*>((i + 1) * alignof(WorkRing));  // NOLINT: never used as one
}

TEST(QueueTable, IsEmptyAtFirst) {
  QueueTable table;
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(QueueTable::kNoQueue), nullptr);
  table.erase(0);
}

TEST(QueueTable, HasNoPlaceForNoQueue) {
  QueueTable table;
  EXPECT_FALSE(table.insert(QueueTable::kNoQueue, {}));
  ASSERT_TRUE(table.insert(1, {}));
  EXPECT_EQ(table.find(QueueTable::kNoQueue), nullptr);
}

TEST(QueueTable, ReplacesTheSameNumber) {
  QueueTable table;
  ASSERT_TRUE(table.insert(7, {ringOf(1), nullptr}));
  ASSERT_TRUE(table.insert(7, {ringOf(2), ringOf(3)}));
  ASSERT_NE(table.find(7), nullptr);
  EXPECT_EQ(*table.find(7), (QueueRings{ringOf(2), ringOf(3)}));
  table.erase(7);
  EXPECT_EQ(table.find(7), nullptr);
}

// Against a map of the standard library, with few numbers, so that runs form and break up.
TEST(QueueTable, AgreesWithAMap) {
  std::mt19937 random(1);
  QueueTable table;
  std::unordered_map<uint32_t, QueueRings> model;
  for (uint32_t step = 0; step < 200000; ++step) {
    uint32_t number = random() % 1000;
    if (step % 3 == 0) number *= 0x10001;  // the same low bits over and over
    if (random() % 2 == 0) {
      QueueRings rings{ringOf(step), ringOf(step + 1)};
      ASSERT_TRUE(table.insert(number, rings));
      model[number] = rings;
    } else {
      table.erase(number);
      model.erase(number);
    }
    uint32_t probe = random() % 1000;
    auto expected = model.find(probe);
    const QueueRings* found = table.find(probe);
    ASSERT_EQ(found != nullptr, expected != model.end()) << "step " << step;
    if (found != nullptr) {
      ASSERT_EQ(*found, expected->second);
    }
  }
  for (const auto& [number, rings] : model) {
    ASSERT_NE(table.find(number), nullptr);
    EXPECT_EQ(*table.find(number), rings);
  }
}

TEST(QueueTable, HoldsManyQueuePairs) {
  QueueTable table;
  constexpr uint32_t kMany = 100000;
  for (uint32_t i = 0; i < kMany; ++i) ASSERT_TRUE(table.insert(i * 256, {ringOf(i), nullptr}));
  for (uint32_t i = 0; i < kMany; ++i) {
    ASSERT_NE(table.find(i * 256), nullptr);
    ASSERT_EQ(table.find(i * 256)->send, ringOf(i));
    ASSERT_EQ(table.find(i * 256 + 1), nullptr);
  }
}

}  // namespace
}  // namespace kiwarp::test
