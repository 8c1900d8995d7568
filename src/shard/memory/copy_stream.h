#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <optional>

#include "base/not_copied.h"

namespace echelon {

/// A stream for copies between a GPU and page-locked host memory, so that they overlap with computation. On
/// the CPU every call does nothing, and copies are synchronous. Not thread-safe, but different threads may
/// use it one after another.
class CopyStream {
 public:
  /// A position in the stream. On the CPU, and by default, one that is already reached.
  class Mark {
   public:
    /// The current stream waits for this position before later work; the host does not wait.
    void hold_stream() const;
    /// Blocks the host until the position is reached.
    void hold_host() const;

   private:
    friend class CopyStream;
    std::shared_ptr<c10::Event> event_;  ///< null: already reached
  };

  /// While it lives, the copy stream is the calling thread's current stream. It first waits for the work
  /// issued so far to the previously current stream.
  class Turn : NotCopied {
   public:
    explicit Turn(CopyStream& copies);
    /// The memory of `tensor`, on the device, is not reused before the work issued so far to the copy stream
    /// is done.
    void uses(const at::Tensor& tensor) const;
    /// The position after all work issued so far.
    [[nodiscard]] Mark mark() const;

   private:
    std::optional<c10::StreamGuard> guard_;  ///< none on the CPU
  };

  explicit CopyStream(at::Device device) : device_(device) {}

 private:
  [[nodiscard]] c10::Stream stream();

  at::Device device_;
  std::optional<c10::Stream> stream_;  ///< created at first use
};

}  // namespace echelon
