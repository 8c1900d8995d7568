#include "app/engine/rank_error.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <iostream>
#include <new>
#include <system_error>

#include "base/caught.h"
#include "base/str.h"

namespace echelon::app {

Error current_error(const char* out_of_memory) {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError&) {
    return {Code::kTraining, out_of_memory};
  } catch (const std::bad_alloc&) {
    return {Code::kTraining, out_of_memory};
  } catch (const c10::Error& error) {  // what() would add a page of stack frames
    return {Code::kTraining, error.what_without_backtrace()};
  } catch (const std::system_error&) {  // above all a thread that cannot be started
    return {Code::kEnvironment, caught()};
  } catch (...) {
    return {Code::kTraining, caught()};
  }
}

void end_process(int status) {
  std::cout.flush();
  _exit(status);
}

std::string where(const Job& job) {
  if (job.info().size == 1) return "";
  return str("rank ", job.info().rank, "/", job.info().size, " ", job.info().host);
}

}  // namespace echelon::app
