// Memory of tensors that are never there: those of the meta device, laid out as if they were.
#pragma once

#include <cstddef>
#include <memory>

namespace hone {

// While it lives, tensors that are made on the meta device have places in a region of addresses that nobody touches, by
// the rules of tensor_memory.h. So a run of the model's own code on that device says what the same run takes on the
// CPU, whatever this machine has. One at a time: a second one waits. The thread that
// made it makes tensors; they may outlive it.
class MetaMemory {
 public:
  MetaMemory();
  ~MetaMemory();
  MetaMemory(const MetaMemory&) = delete;

  std::size_t in_use() const;   // bytes now
  std::size_t most() const;     // in use at once since the last forget_most()
  void forget_most();
  std::size_t reached() const;  // bytes of memory that such tensors have ever lain in: with the gaps between them

 private:
  struct State;
  class Allocator;
  std::shared_ptr<State> state_;
};

}  // namespace hone
