#include "data/batch_stream.h"

#include <algorithm>
#include <chrono>

#include "base/steady_time.h"

namespace echelon {

BatchStream::BatchStream(const Loader& loader, const BatchPlan& plan, std::int64_t workers,
                         std::int64_t ahead)
    : loader_(loader), plan_(plan), ahead_(static_cast<std::size_t>(std::max(ahead, workers))) {
  if (workers == 0) return;
  pipeline_.emplace(workers, [this] { return [this](std::int64_t number) { return read(number); }; });
  fill();
}

SampleBatch BatchStream::read(std::int64_t number) const {
  return loader_.read(plan_.first + number * plan_.stride, plan_.samples);
}

void BatchStream::fill() {
  for (; pipeline_ && pipeline_->under_way() < ahead_; ++begun_) pipeline_->submit(begun_);
}

SampleBatch BatchStream::next() {
  const auto began = std::chrono::steady_clock::now();
  fill();  // where the batch before gave an error
  SampleBatch batch = pipeline_ ? pipeline_->take() : read(begun_++);
  fill();
  waited_s_ += seconds_since(began);
  return batch;
}

}  // namespace echelon
