// The program: holds its streams, arranges memory for training steps, then runs one command.
#include <malloc.h>

#include "cli/program.h"
#include "cli/standard_streams.h"
#include "tensor/give_way.h"
#include "tensor/tensor_memory.h"
#include "tensor/threads.h"

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
