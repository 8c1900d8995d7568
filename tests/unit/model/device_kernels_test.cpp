#include "model/ops/device_kernels.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace echelon::ops {
namespace {

TEST(DeviceKernels, AreNamedWhenTheyAreMissing) {
  // A tensor that says to lie on a GPU; without a driver none can.
  const at::Tensor gpu(c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                            caffe2::TypeMeta::Make<float>(),
                                                            at::Device(at::kCUDA, 0)));
  try {
    (void)device_kernels(gpu);
    FAIL() << "not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("libechelon_cuda.so"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace echelon::ops
