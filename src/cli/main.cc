// The program: hears signals, holds its streams, arranges memory for training steps, then runs one command.
#include <malloc.h>

#include <string_view>

#include "base/signals.h"
#include "cli/program.h"
#include "cli/standard_streams.h"
#include "tensor/give_way.h"
#include "tensor/tensor_memory.h"
#include "tensor/threads.h"

namespace {

// Before libraries' constructors run, which takes most of the time of a start.
void hear_signals(int count, char** arguments, char** environment) {
  hone::pass_over_save_signals();
  bool json = false, is_rank = false;
  for (int i = 1; i < count; ++i) json = json || arguments[i] == std::string_view("--json");
  for (char** entry = environment; *entry; ++entry)
    for (const std::string_view launcher : {"WORLD_SIZE=", "OMPI_COMM_WORLD_SIZE=", "SLURM_STEP_NUM_TASKS="})
      is_rank = is_rank || std::string_view(*entry).starts_with(launcher);
  if (!is_rank) hone::end_at_stop_signals(json, false);  // run_program knows whether it is
}

// Sanitizers have no memory of theirs by then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
[[maybe_unused]] void (*const not_that_early)(int, char**, char**) = hear_signals;
#else
__attribute__((section(".preinit_array"), used)) void (*const first_of_all)(int, char**, char**) = hear_signals;
#endif

}  // namespace

int main(int count, char** arguments) {
  hone::cli::hold_standard_streams();
  // A training step allocates and frees large blocks again and again: without these, each is a fresh mmap.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 2147483647);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_ARENA_MAX, 1);  // threads take large blocks only: room that one gave back serves the others
  hone::use_tensor_region();
  hone::use_default_threads();
  const hone::GiveWay give_way;
  return hone::cli::run_program({arguments + 1, arguments + count});
}
