#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <optional>

namespace echelon {

/// A stream of a device for copies to and from page-locked host memory, so that they run beside computation.
/// The CPU has none: there every call returns at once and copies are done where they are written. Not
/// thread-safe, but the current stream is each thread's own: one thread may go on where another has stopped.
class CopyStream {
 public:
  /// Where the stream has got to; on the CPU, and before anything was marked, a place already reached.
  class Mark {
   public:
    /// What the current stream is given from now on starts behind it.
    void hold_stream() const;
    /// Returns when it is reached.
    void hold_host() const;

   private:
    friend class CopyStream;
    std::shared_ptr<c10::Event> event_;  ///< null: reached
  };

  /// While it lives, the copy stream is the calling thread's current one: what is given to the device goes
  /// there, behind everything that the stream current before has been given.
  class Turn {
   public:
    explicit Turn(CopyStream& copies);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// The memory of `tensor`, of the device, is given to nobody else before the copies in the stream are
    /// done.
    void uses(const at::Tensor& tensor) const;
    /// Everything that the stream has been given so far.
    [[nodiscard]] Mark mark() const;

   private:
    std::optional<c10::StreamGuard> guard_;  ///< none on the CPU
  };

  explicit CopyStream(at::Device device) : device_(device) {}

 private:
  [[nodiscard]] c10::Stream stream();

  at::Device device_;
  std::optional<c10::Stream> stream_;  ///< made at the first use
};

}  // namespace echelon
