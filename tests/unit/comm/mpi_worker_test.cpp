#include "comm/mpi/mpi_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <new>
#include <string>
#include <thread>

#include "support/matches.h"
#include "support/places.h"
#include "support/refusal.h"
#include "support/variable.h"

namespace echelon {
namespace {

// Its thread is lost inside MPI, and goes on when MPI does.
TEST(MpiWorker, AStartThatTakesTooLongLeavesItsMemoryAlone) {
  const test::Variable library("ECHELON_MPI", test::program("slow_mpi.so"));
  const test::Variable slowness("SLOW_MPI_MS", "300");
  constexpr auto kGone = std::byte{0x5A};
  alignas(MpiWorker) std::array<std::byte, sizeof(MpiWorker)> place;
  EXPECT_MENTIONS(test::error_of([&] { new (place.data()) MpiWorker(0.05); }),
                  "MPI_Init_thread of slow MPI did not return within 0.05 s");
  place.fill(kGone);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_TRUE(std::ranges::all_of(place, [](std::byte byte) { return byte == kGone; }));
}

}  // namespace
}  // namespace echelon
