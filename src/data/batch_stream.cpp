#include "data/batch_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/steady_time.h"

namespace echelon {

BatchStream::BatchStream(const Loader& loader, const BatchPlan& plan, std::int64_t workers,
                         std::int64_t ahead)
    : loader_(loader), plan_(plan), places_(static_cast<std::size_t>(std::max(ahead, workers))) {
  for (std::int64_t i = 0; i < workers; ++i) workers_.emplace_back([this] { serve(); });
}

BatchStream::~BatchStream() {
  {
    const Lock lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  for (auto& worker : workers_) worker.join();
}

SampleBatch BatchStream::read(std::int64_t number) const {
  return loader_.read(plan_.first + number * plan_.stride, plan_.samples);
}

void BatchStream::serve() {
  Lock lock(mutex_);
  const auto capacity = static_cast<std::int64_t>(places_.size());
  for (;;) {
    // Then the place of the next number is free: the batch that had it is taken.
    changed_.wait(lock, [&]() ECHELON_REQUIRES(mutex_) { return closed_ || begun_ < taken_ + capacity; });
    if (closed_) return;
    const std::int64_t number = begun_++;
    lock.unlock();
    Place filled;
    try {
      filled.batch = read(number);
    } catch (...) {
      // Kept for take(): training sees the error after all batches before this one.
      filled.failure = std::current_exception();
    }
    lock.lock();
    places_[static_cast<std::size_t>(number % capacity)] = std::move(filled);
    // All are woken: workers wait for free places, and the training thread for one batch.
    changed_.notify_all();
  }
}

SampleBatch BatchStream::take() {
  Lock lock(mutex_);
  if (workers_.empty()) return read(taken_++);
  Place& place = places_[static_cast<std::size_t>(taken_) % places_.size()];
  changed_.wait(lock, [&] { return place.filled(); });
  Place full = std::exchange(place, {});
  ++taken_;
  changed_.notify_all();
  if (full.failure) std::rethrow_exception(full.failure);
  return std::move(*full.batch);
}

SampleBatch BatchStream::next() {
  const auto began = std::chrono::steady_clock::now();
  SampleBatch batch = take();
  waited_s_ += seconds_since(began);
  return batch;
}

}  // namespace echelon
