// at::set_num_threads by what the process may use.
#include "tensor/threads.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "base/cpus.h"
#include "base/strings.h"

namespace hone {

void use_default_threads() { at::set_num_threads(threads_by_core(cpus())); }

std::string describe_threads() {
  const int count = at::get_num_threads();
  const std::string text = counted(count, "thread");
  if (count == threads_by_core(cpus())) {
    const std::string why = why_threads(cpus());
    return why.empty() ? text : fmt::format("{} ({})", text, why);
  }
  return text;
}

}  // namespace hone
