#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "comm/operation.h"

namespace echelon::forecast {

/// The limit of a device that an operation meets first.
enum class Cost : std::uint8_t {
  kProduct,            ///< matrix products and convolutions
  kFp8Product,         ///< matrix products of operands in eight bits
  kAttention,          ///< fused attention, forward
  kAttentionBackward,  ///< and backward
  kMemory,             ///< reads and writes with little arithmetic
  kHostCopy,           ///< between host and device
};

/// One operation on the device that computes.
struct Work {
  double flops = 0;         ///< a multiply-add counts as two
  double seconds = 0;       ///< measured; 0 in a rehearsal
  double before_s = 0;      ///< measured: of its thread between the previous work and this one
  double bytes = 0;         ///< read and written
  std::uint16_t name = 0;   ///< index into Trace::names
  std::uint16_t after = 0;  ///< name of the previous work of its thread, or of the last that was not divided
  std::uint16_t again_after = 0;  ///< the same in all but the first of a thread's tasks
  std::uint16_t place = 0;        ///< index into Trace::places
  std::uint16_t head_size = 0;    ///< elements of a head, if it is attention
  std::uint8_t stream = 0;        ///< of the device; 0: the main one
  Cost cost = Cost::kMemory;
  DType type = DType::kF32;  ///< of what it computes with
  bool on_host = false;      ///< tensors in host memory, where a device computes
  bool divided = false;      ///< runs in one of several threads beside others of its kind
  /// If it is divided: the number of equal tasks, on tensors of the same shapes, that threads share; `flops`
  /// and `bytes` are the sums over all tasks. 0: threads take equal parts of the work.
  std::int64_t tasks = 0;
};

/// One collective, as this rank issues it.
struct Message {
  std::uint8_t stream = 0;  ///< the stream that waits for it, and that it waits for
  OperationKind kind = OperationKind::kBarrier;
  DType type = DType::kU8;
  std::uint64_t count = 0;  ///< as in Operation
  double sent_bytes = 0;    ///< payload that this rank sends to others
  std::uint16_t group = 0;  ///< index into Trace::groups
  std::uint16_t label = 0;  ///< index into Trace::names
};

/// One action of the thread that trains, in its order.
struct Event {
  enum class Kind : std::uint8_t {
    kWork,      ///< `index` of Trace::works
    kIssue,     ///< of Trace::messages
    kWait,      ///< the stream waits for a message
    kMark,      ///< number `index` is the stream's position now
    kHold,      ///< the stream waits for mark `index`
    kHostHold,  ///< the host does
    kSync,      ///< the host waits for everything on the stream
  };
  Kind kind;
  std::uint8_t stream = 0;
  std::uint32_t index = 0;
};

/// The ranks of one communicator.
struct Group {
  std::vector<int> ranks{};  ///< numbers in the job
  bool on_host = false;      ///< the host sends, and waits; else the device, beside what it computes
};

/// The work of one rank in one step, as the bookkeeping device recorded it.
struct Trace {
  std::vector<Work> works;
  std::vector<Message> messages;
  std::vector<Event> events;
  std::vector<std::string> names;
  std::vector<std::string> places;  ///< "forward layers.3"
  std::vector<Group> groups;
  /// Events with which each micro-batch begins; the first is 0.
  std::vector<std::uint32_t> passes;
  std::uint32_t peak = 0;  ///< event at which tensors needed most memory
  std::uint32_t marks = 0;
};

}  // namespace echelon::forecast
