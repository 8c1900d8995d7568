#include "comm/agree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <string_view>
#include <thread>

#include "support/refusal.h"
#include "support/thread_ranks.h"

namespace echelon {
namespace {

using test::ThreadRanks;

/// What each of three ranks throws when `fail` is what ranks 1 and 2 do.
template <class Fail>
std::vector<std::exception_ptr> thrown_on_ranks(const Fail& fail) {
  return ThreadRanks::run(3, [&](Communicator& comm) {
    agree(comm, "test", [&] {
      if (comm.rank() > 0) fail();
    });
  });
}

/// The code of an Error that another rank has reported.
int code_of(const std::exception_ptr& thrown) {
  const Error error = test::thrown_by([&] { std::rethrow_exception(thrown); }).value();
  EXPECT_TRUE(error.is_reported());
  return static_cast<int>(error.code());
}

TEST(Agree, ReturnsWhereNobodyFails) {
  for (const auto& thrown : ThreadRanks::run(3, [](Communicator& comm) { agree(comm, "test", [] {}); }))
    EXPECT_EQ(thrown, nullptr);
}

TEST(Agree, TheLowestRankThatFailsTellsAndTheOthersGetItsCode) {
  const auto thrown = thrown_on_ranks([] { throw Error(Code::kData, "no data"); });
  EXPECT_EQ(code_of(thrown[0]), 4);
  const Error own = test::thrown_by([&] { std::rethrow_exception(thrown[1]); }).value();
  EXPECT_FALSE(own.is_reported());
  EXPECT_STREQ(own.what(), "no data");
  EXPECT_EQ(code_of(thrown[2]), 4);
}

TEST(Agree, WhateverARankThrowsReachesTheOthers) {
  const auto memory = thrown_on_ranks([] { throw std::bad_alloc(); });
  EXPECT_THROW(std::rethrow_exception(memory[1]), std::bad_alloc);
  const auto foreign = thrown_on_ranks([] { throw std::runtime_error("of a library"); });
  EXPECT_THROW(std::rethrow_exception(foreign[1]), std::runtime_error);
  const auto unknown = thrown_on_ranks([] { throw 7; });
  EXPECT_THROW(std::rethrow_exception(unknown[1]), int);
  for (const auto* thrown : {&memory, &foreign, &unknown}) {
    EXPECT_EQ(code_of((*thrown)[0]), 6);
    EXPECT_EQ(code_of((*thrown)[2]), 6);
  }
}

TEST(Agree, AtLengthWaitsForLongerThanACollectiveMay) {
  const auto at_length = [](Communicator& comm, std::string_view label, const auto& body) {
    agree_at_length(comm, label, body);
  };
  const auto slow = [](const auto& agreeing, int code) {
    return ThreadRanks::run(
        3,
        [&](Communicator& comm) {
          agreeing(comm, "test", [&] {
            if (comm.rank() != 1) return;
            std::this_thread::sleep_for(std::chrono::seconds(3));
            if (code != 0) throw Error(static_cast<Code>(code), "in the end");
          });
        },
        2);
  };
  for (const auto& thrown : slow(at_length, 0)) EXPECT_EQ(thrown, nullptr);
  EXPECT_EQ(code_of(slow(at_length, 5)[2]), 5);
  EXPECT_NE(slow(agree, 0)[0], nullptr);
}

TEST(Agree, AtLengthWaitsAsLongForARankThatGetsOnAndNoLongerForOneThatStandsStill) {
  for (const bool gets_on : {true, false}) {
    std::atomic<std::uint64_t> count{0};
    const auto thrown = ThreadRanks::run(
        2,
        [&](Communicator& comm) {
          const auto body = [&] {
            for (int n = 0; comm.rank() == 1 && n < 20; ++n) {
              std::this_thread::sleep_for(std::chrono::milliseconds(200));
              if (gets_on) ++count;
            }
          };
          agree_at_length(comm, "test", body, [&] { return count.load(); });
        },
        2);
    EXPECT_EQ(thrown[0] == nullptr, gets_on);
  }
}

}  // namespace
}  // namespace echelon
