// Runs the tests of kernels on the host's fibers. What a kernel does that a device would not forgive fails
// the test.
#include <gtest/gtest.h>

#include "gpu/fibers/findings.h"

namespace {

class Findings : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& found : echelon::fibers::take_findings()) ADD_FAILURE() << found;
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  // In front of the printer, which then shows these failures, too.
  auto* printer = listeners.Release(listeners.default_result_printer());
  listeners.Append(new Findings);
  listeners.Append(printer);
  return RUN_ALL_TESTS();
}
