// The CUDA runtime's functions that the project's communication uses, on a Machine.
#include <cuda_runtime.h>

#include <cstring>

#include "gpu/stand_in/machine.h"

using echelon::stand_in::Event;
using echelon::stand_in::Machine;
using echelon::stand_in::named;
using echelon::stand_in::Operation;
using echelon::stand_in::Order;
using echelon::stand_in::Record;
using echelon::stand_in::Stream;

namespace {

Event& event_of(cudaEvent_t event) {
  return *reinterpret_cast<Event*>(event);
}

}  // namespace

extern "C" {

cudaError_t cudaSetDevice(int device) {
  if (Machine* machine = Machine::current()) {
    if (!machine->begin_call()) return cudaErrorUnknown;
    const auto held = machine->lock();
    if (machine->left_out(Order::kDevice)) return cudaSuccess;
  }
  Machine::set_device(device);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "the stand-in's error";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaErrorStandIn";
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  Machine& machine = *Machine::current();
  if (!machine.begin_call()) return cudaErrorUnknown;
  const auto held = machine.lock();
  machine.needs_device_of(machine.host().rank, "cudaStreamCreateWithPriority");
  *stream = reinterpret_cast<cudaStream_t>(&machine.new_stream());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Machine& machine = Machine::of(handle);
  const auto held = machine.lock();
  machine.stream(handle).destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Machine& machine = *Machine::current();
  if (!machine.begin_call()) return cudaErrorUnknown;
  const auto held = machine.lock();
  Event& made = machine.new_event();
  machine.needs_device_of(made.rank, "cudaEventCreateWithFlags");
  made.timed = (flags & cudaEventDisableTiming) == 0;
  *event = reinterpret_cast<cudaEvent_t>(&made);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  Event& event = event_of(handle);
  const auto held = event.machine->lock();
  if (event.destroyed) event.machine->fault("an event is destroyed twice");
  event.destroyed = true;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  Event& event = event_of(handle);
  Machine& machine = *event.machine;
  if (!machine.begin_call()) return cudaErrorUnknown;
  const auto held = machine.lock();
  if (event.destroyed) machine.fault("an event is recorded that has been destroyed");
  machine.needs_device_of(event.rank, "cudaEventRecord");
  if (machine.left_out(Order::kRecord)) return cudaSuccess;
  event.last = std::make_shared<Record>();
  machine.push(machine.stream(stream), {.name = named("cudaEventRecord"), .record = event.last});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  Event& event = event_of(handle);
  Machine& machine = *event.machine;
  if (!machine.begin_call()) return cudaErrorUnknown;
  const auto held = machine.lock();
  if (event.destroyed) machine.fault("an event is asked that has been destroyed");
  machine.needs_device_of(event.rank, "cudaEventQuery");
  if (machine.left_out(Order::kQuery) || !event.last) return cudaSuccess;
  if (!event.last->passed) return cudaErrorNotReady;
  machine.saw(*event.last);
  return cudaSuccess;
}

// An operation of the machine takes a millisecond.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const Event& began = event_of(from);
  const Event& ended = event_of(to);
  Machine& machine = *ended.machine;
  if (!machine.begin_call()) return cudaErrorUnknown;
  const auto held = machine.lock();
  if (began.destroyed || ended.destroyed)
    machine.fault("the time of an event is asked that has been destroyed");
  if (!began.timed || !ended.timed || !began.last || !ended.last) return cudaErrorInvalidResourceHandle;
  if (!began.last->passed || !ended.last->passed) return cudaErrorNotReady;
  *ms = static_cast<float>(ended.last->at - began.last->at);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
  Event& event = event_of(handle);
  Machine& machine = *event.machine;
  if (!machine.begin_call()) return cudaErrorUnknown;
  const auto held = machine.lock();
  if (event.destroyed) machine.fault("an event is waited for that has been destroyed");
  if (machine.left_out(Order::kStreamWait) || !event.last) return cudaSuccess;
  machine.push(machine.stream(stream), {.name = named("cudaStreamWaitEvent"), .awaits = event.last});
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t handle) {
  Machine& machine = Machine::of(handle);
  if (!machine.begin_call()) return cudaErrorMemoryAllocation;
  const auto held = machine.lock();
  machine.needs_device_of(machine.stream(handle).rank, "cudaMallocAsync");
  *memory = machine.allocate(bytes);
  machine.push(machine.stream(handle), {.name = named("cudaMallocAsync"), .writes = {{*memory, bytes}}});
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  Machine& machine = Machine::of(handle);
  const auto held = machine.lock();
  machine.free_range(memory, machine.stream(handle));
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  Machine& machine = *Machine::current();
  if (!machine.begin_call()) return cudaErrorMemoryAllocation;
  const auto held = machine.lock();
  machine.needs_device_of(machine.host().rank, "cudaHostAlloc");
  *memory = machine.allocate(bytes);
  machine.pin(*memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  Machine* machine = Machine::current();
  if (machine == nullptr) return cudaErrorUnknown;
  auto held = machine->lock();
  const int rank = machine->host().rank;
  const echelon::stand_in::Range range{memory, machine->bytes_of(memory)};
  (void)machine->wait(held, [&] { return !machine->in_use(rank, range); });  // the device lets go of it first
  machine->unpin(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  Machine& machine = Machine::of(handle);
  if (!machine.begin_call()) return cudaErrorUnknown;
  auto held = machine.lock();
  Stream& stream = machine.stream(handle);
  machine.needs_device_of(stream.rank, "cudaMemcpyAsync");
  Operation copy{.name = named("cudaMemcpyAsync"), .reads = {{from, bytes}}, .writes = {{to, bytes}}};
  const bool pageable = !machine.pinned(kind == cudaMemcpyHostToDevice ? from : to);
  if (pageable && kind == cudaMemcpyHostToDevice) {
    // Ordinary memory is copied aside before the call returns, and the call may wait for the stream first.
    const auto here = std::make_shared<Record>();
    machine.push(stream, {.name = named("a copy from ordinary memory"), .record = here});
    if (machine.chance() < 0.5 && !machine.wait(held, [&] { return here->passed; })) return cudaErrorUnknown;
    const auto* bytes_now = static_cast<const std::byte*>(from);
    copy.reads.clear();
    copy.run = [to, aside = std::vector<std::byte>(bytes_now, bytes_now + bytes)] {
      if (!aside.empty()) std::memcpy(to, aside.data(), aside.size());
    };
    machine.push(stream, std::move(copy));
    return cudaSuccess;
  }
  if (pageable && kind == cudaMemcpyDeviceToHost)
    copy.writes.clear();  // the heap gives it to another rank next
  copy.run = [to, from, bytes] { std::memcpy(to, from, bytes); };
  const auto end = std::make_shared<Record>();
  copy.record = end;
  machine.push(stream, std::move(copy));
  if (!pageable || kind == cudaMemcpyDeviceToDevice) return cudaSuccess;
  if (!machine.wait(held, [&] { return end->passed; })) return cudaErrorUnknown;
  machine.saw(*end);
  return cudaSuccess;
}

}  // extern "C"
