// When quantized weights come and go.
#include "nn/unpacking.h"

#include <memory>
#include <vector>

#include "ops/quantized.h"

namespace hone::nn {
namespace {

class Unpacking final : public Residency {
 public:
  explicit Unpacking(std::vector<std::vector<const Weight*>> blocks) : blocks_(std::move(blocks)) {}

  // What a backward pass has left, or one that never came.
  void begin(bool learns) override {
    learns_ = learns;
    for (std::size_t i = 0; i < blocks_.size(); ++i) pack(i);
  }
  void enter(std::size_t block) override { unpack(block); }
  // The last one stays for the backward pass, which begins with it.
  void leave(std::size_t block) override {
    if (!learns_ || block + 1 < blocks_.size()) pack(block);
  }
  void enter_backward(std::size_t block) override { unpack(block); }
  void leave_backward(std::size_t block) override { pack(block); }
  void idle_pass(bool) override {}

 private:
  void unpack(std::size_t block) {
    for (const Weight* weight : blocks_[block]) weight->unpack();
  }
  void pack(std::size_t block) {
    for (const Weight* weight : blocks_[block]) weight->pack();
  }
  std::vector<std::vector<const Weight*>> blocks_;
  bool learns_ = false;
};

}  // namespace

void unpack_in_blocks(Model& model) {
  std::vector<std::vector<const Weight*>> blocks;
  std::int64_t within = 0, all = 0;
  for (const Block* block : model.blocks()) {
    blocks.emplace_back();
    block->each_weight([&](const std::string&, const Weight& weight) {
      if (weight.quantized()) blocks.back().push_back(&weight), ++within;
    });
  }
  std::as_const(model).each_weight(
      [&](const std::string&, const Weight& weight) { all += weight.quantized() != nullptr; });
  HONE_ASSERT(all == within);
  if (all > 0) model.set_unpacking(std::make_unique<Unpacking>(std::move(blocks)));
}

Held held_in_few_bits(const Module& module) {
  Held held;
  module.each_weight([&](const std::string&, const Weight& weight) {
    const ops::Quantized* quantized = weight.quantized();
    if (!quantized) return;
    held.weights += 1, held.bytes += quantized->bytes();
    const std::uint64_t whole =
        static_cast<std::uint64_t>(weight.numel()) * c10::elementSize(weight.use().scalar_type());
    held.whole += whole, held.whole_now += weight.is_there() ? whole : 0;
  });
  return held;
}

}  // namespace hone::nn
