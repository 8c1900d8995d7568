#include "model/ops/device_kernels.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace echelon::ops {
namespace {

TEST(DeviceKernels, AreNamedWhenTheyAreMissing) {
  try {
    (void)device_kernels();
    FAIL() << "not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("libechelon_cuda.so"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace echelon::ops
