// What GCC calls for every access to memory in code compiled with -fsanitize=thread. ThreadSanitizer's own
// runtime is not linked: these are its hooks' names, with the books of Memory behind them.
#include <cstddef>

#include "base/str.h"
#include "gpu/fibers/block.h"
#include "gpu/fibers/findings.h"
#include "gpu/fibers/memory.h"

namespace echelon::fibers {
namespace {

/// True: the thread's own stack, of which there are no books.
bool is_own_stack(const Running& running, const char* at, std::size_t bytes) {
  const char* own = running.stacks + running.now.thread * running.stack_bytes;
  return at >= own && at + bytes <= own + running.stack_bytes;
}

/// `border`: of which the address must be a multiple.
void touch(const void* pointer, std::size_t bytes, Access access, const void* place, std::size_t border) {
  const Running* kernel = running();
  if (kernel == nullptr || bytes == 0 || is_own_stack(*kernel, static_cast<const char*>(pointer), bytes))
    return;
  auto wrong = Memory::only().touch(pointer, bytes, access, kernel->now);
  if (!wrong && reinterpret_cast<std::uintptr_t>(pointer) % border != 0)
    wrong = Wrong{Kind::kUnaligned, str(bytes, " bytes at an address that is no multiple of ", border)};
  if (!wrong || is_known(wrong->kind, place)) return;
  find(wrong->kind, place,
       str(kernel->kernel, ": thread ", kernel->now.thread, " of block ", kernel->now.block,
           access == Access::kRead ? " reads " : " writes ", wrong->what));
}

}  // namespace
}  // namespace echelon::fibers

using echelon::fibers::Access;
using echelon::fibers::touch;

// A device stops at an access that is not aligned to its size. The hooks called unaligned are for types that
// ask for less, which nvcc reads in parts.
#define ECHELON_HOOK(name, bytes, access, border)                 \
  void __tsan_##name##bytes(void* p) {                            \
    touch(p, bytes, access, __builtin_return_address(0), border); \
  }
#define ECHELON_HOOKS(bytes)                               \
  ECHELON_HOOK(read, bytes, Access::kRead, bytes)          \
  ECHELON_HOOK(write, bytes, Access::kWrite, bytes)        \
  ECHELON_HOOK(unaligned_read, bytes, Access::kRead, 1)    \
  ECHELON_HOOK(unaligned_write, bytes, Access::kWrite, 1)  \
  ECHELON_HOOK(volatile_read, bytes, Access::kRead, bytes) \
  ECHELON_HOOK(volatile_write, bytes, Access::kWrite, bytes)

extern "C" {
ECHELON_HOOKS(1)
ECHELON_HOOKS(2)
ECHELON_HOOKS(4)
ECHELON_HOOKS(8)
ECHELON_HOOKS(16)
void __tsan_read_range(void* p, std::size_t bytes) {
  touch(p, bytes, Access::kRead, __builtin_return_address(0), 1);
}
void __tsan_write_range(void* p, std::size_t bytes) {
  touch(p, bytes, Access::kWrite, __builtin_return_address(0), 1);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
