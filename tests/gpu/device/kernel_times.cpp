// Notes each kernel, copy and fill of a program on a GPU: CUDA_INJECTION64_PATH=libkernel_times.so
// KERNEL_TIMES=FILE. The CUDA driver loads this library and calls InitializeInjection. FILE has a line each:
// beginning and end (ns), stream, name. It grows every second, so that a program which is killed leaves all
// but the last.
#include <cupti.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;

std::FILE* g_file = nullptr;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = kBufferBytes;
  *most_records = 0;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
}

template <typename Record>
void note(const CUpti_Activity* activity, const char* name) {
  const auto* record = reinterpret_cast<const Record*>(activity);
  std::fprintf(g_file, "%llu %llu %u %s\n", static_cast<unsigned long long>(record->start),
               static_cast<unsigned long long>(record->end), record->streamId, name);
}

const char* copy_name(const CUpti_Activity* activity) {
  switch (reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity)->copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy from host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy within the device";
    default: return "copy";
  }
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_size) {
  CUpti_Activity* activity = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_size, &activity) == CUPTI_SUCCESS) {
    switch (activity->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        note<CUpti_ActivityKernel10>(activity,
                                     reinterpret_cast<const CUpti_ActivityKernel10*>(activity)->name);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY: note<CUpti_ActivityMemcpy6>(activity, copy_name(activity)); break;
      case CUPTI_ACTIVITY_KIND_MEMSET: note<CUpti_ActivityMemset4>(activity, "fill"); break;
      default: break;
    }
  }
  std::free(buffer);
  std::fflush(g_file);
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* path = std::getenv("KERNEL_TIMES");
  // A driver starts in each process of a run; those that name no file are left alone.
  if (path == nullptr || (g_file = std::fopen(path, "a")) == nullptr) return 1;
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return 0;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) return 0;
  }
  std::thread([] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      cuptiActivityFlushAll(0);
    }
  }).detach();
  return 1;
}
