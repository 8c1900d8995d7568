#include "model/ops/device_kernels.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon::ops {
namespace {

TEST(DeviceKernels, AreNamedWhenTheyAreMissing) {
  // A tensor that says to lie on a GPU; without a driver none can.
  const at::Tensor gpu(c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                            caffe2::TypeMeta::Make<float>(),
                                                            at::Device(at::kCUDA, 0)));
  EXPECT_MENTIONS(test::refusal(Code::kEnvironment, [&] { return device_kernels(gpu); }),
                  "libechelon_cuda.so");
}

}  // namespace
}  // namespace echelon::ops
