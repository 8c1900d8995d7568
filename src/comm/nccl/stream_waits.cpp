#include "comm/nccl/stream_waits.h"

namespace echelon {
namespace {

/// False also if the device has failed, which the next call that needs it tells: times are read while an
/// error is on its way, too.
bool passed(const CudaEvent& event) {
  try {
    return event.passed();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void StreamWaits::wait(cudaStream_t stream, const CudaEvent& end) {
  const Lock lock(mutex_);
  collect();  // so that few events are kept even if seconds() is never called
  auto began = std::make_unique<CudaEvent>(stream, CudaEvent::Kind::kTimed);
  check_cuda(cudaStreamWaitEvent(stream, end.get(), 0), "waiting for communication");
  auto ended = std::make_unique<CudaEvent>(stream, CudaEvent::Kind::kTimed);
  under_way_.push_back({std::move(began), std::move(ended)});
}

double StreamWaits::seconds() {
  const Lock lock(mutex_);
  collect();
  return seconds_;
}

void StreamWaits::collect() {
  while (!under_way_.empty() && passed(*under_way_.front().ended)) {
    seconds_ += under_way_.front().ended->seconds_since(*under_way_.front().began);
    under_way_.pop_front();
  }
}

}  // namespace echelon
