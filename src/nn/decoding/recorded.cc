// A step is remembered when it was done once in the same places. When something lies elsewhere (the cache has grown,
// rows have left), KvCache::generation is another one, and the next step is done op by op again.
#include "nn/decoding/recorded.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "hone/error.h"
#include "hone/layers.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/likeliest.h"
#include "ops/linear.h"
#include "ops/make_recording.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

struct LeftCounts {
  explicit LeftCounts(KvCache& cache) : cache(cache) { cache.leave_counts(true); }
  ~LeftCounts() { cache.leave_counts(false); }
  LeftCounts(const LeftCounts&) = delete;
  KvCache& cache;
};

class RecordedDecoder final : public Decoder {
 public:
  RecordedDecoder(const CausalLm& model, std::string adapter, std::unique_ptr<ops::Recording> recording)
      : model_(model), adapter_(std::move(adapter)), recording_(std::move(recording)) {}

  bool step(std::span<const std::int32_t> ids, KvCache& cache) override {
    cache_ = &cache;
    if (!cache.room_for_one_each()) return false;
    if (std::exchange(is_ahead_, false)) {
      if (recorded_ == cache.generation() && std::ranges::equal(ids, likeliest_)) {
        cache.advance_as_recorded();
        likeliest_.clear();
        return true;
      }
      cache.count_again();
      likeliest_.clear();
    }
    give(ids);
    const bool reaches = cache.angles_reach();
    if (reaches && tried_ == cache.generation() && recorded_ != tried_) record(cache);
    if (reaches && recorded_ == cache.generation()) {
      recording_->replay();
      cache.advance_as_recorded();
    } else {
      try_out(cache);
    }
    likeliest_.clear();
    return true;
  }

  // While they are on their way, the device makes the next step, which is most often that of these tokens: it needs no
  // host to know them.
  std::span<const std::int32_t> likeliest() override {
    if (!likeliest_.empty()) return likeliest_;
    const host::Asked asked = host::Asked::as_it_is(likeliest_R_);
    if (recorded_ == cache_->generation() && cache_->has_room_for_one_each() && cache_->angles_reach()) {
      recording_->replay();
      is_ahead_ = true;
    }
    for (const double id : asked.numbers()) likeliest_.push_back(static_cast<std::int32_t>(id));
    return likeliest_;
  }
  std::span<float> logits() override {
    HONE_ASSERT(!is_ahead_);
    read_RV_ = host::read(logits_RV_.to(at::kFloat));
    return host::mutable_values<float>(read_RV_);
  }
  // In one read with the likeliest ones: all of them are exact as fp64.
  Highest highest(std::int64_t count) override {
    HONE_ASSERT(!is_ahead_);
    const Tensor logits_RV = logits_RV_.to(at::toOpMathType(logits_RV_.scalar_type()));
    const auto [logits, ids] = logits_RV.topk(std::min(count, logits_RV.size(1)));
    const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
    const Tensor read = host::read(at::cat({wide(likeliest_R_), wide(logits.flatten()), wide(ids.flatten())}));
    std::span<const double> values = host::values<double>(read);
    const auto next = [&](std::int64_t some, auto& into) {
      into.assign(values.begin(), values.begin() + some);
      values = values.subspan(static_cast<std::size_t>(some));
    };
    next(likeliest_R_.numel(), likeliest_), next(logits.numel(), highest_), next(ids.numel(), highest_ids_);
    return {highest_, highest_ids_};
  }

 private:
  // Tokens that the device has found itself are there already.
  void give(std::span<const std::int32_t> ids) {
    const auto rows = static_cast<std::int64_t>(ids.size());
    const bool fits = ids_R1_.defined() && ids_R1_.size(0) == rows;
    if (fits && std::equal(ids.begin(), ids.end(), likeliest_.begin(), likeliest_.end())) return;
    const Tensor on_host = host::tensor_of(std::vector<std::int64_t>(ids.begin(), ids.end()), {rows, 1});
    if (fits)
      ids_R1_.copy_(devices::sent(on_host, model_.device()));
    else
      ids_R1_ = devices::sent(on_host, model_.device());
  }

  // Op by op. It can be remembered if the host neither waited nor sent what only this step needs.
  void try_out(KvCache& cache) {
    const std::int64_t waits = host::waits(), sends = devices::sends();
    const bool lasting = run(cache) && host::waits() == waits && devices::sends() == sends;
    tried_ = lasting && recording_ ? std::optional(cache.generation()) : std::nullopt;
  }

  // With the step of each row counted, as if it had been done.
  void record(KvCache& cache) {
    const std::vector<std::int64_t> before(cache.lengths().begin(), cache.lengths().end());
    try {
      recording_->record([&] { run(cache); });
      recorded_ = tried_;
    } catch (const c10::Error& error) {
      log::warning("tokens are made op by op, which is slower: this device cannot remember a step of this model: {}",
                   error.what_without_backtrace());
      recording_.reset(), tried_.reset(), recorded_.reset();
    }
    cache.go_back_to(before);
  }

  // What rows hold is counted where their tokens are chosen, behind the head: until then nothing has to wait for it.
  bool run(KvCache& cache) {
    Batch batch;
    batch.ids_BT = ids_R1_, batch.tokens = ids_R1_.size(0);
    Pass pass(batch);
    pass.cache = &cache, pass.adapter = adapter_;
    const LeftCounts scope(cache);
    const Tensor hidden_RD = model_.forward(batch, pass).hidden_BTD.flatten(0, 1);
    const Head& head = model_.head();  // the likeliest is the same in the weight's own type
    const bool plain = !head.is_made_apart(pass) && head.soft_cap() == 0;
    logits_RV_ = plain ? ops::linear(hidden_RD, head.with_bias()) : head.logits(hidden_RD, pass);
    likeliest_R_ = ops::likeliest_then(logits_RV_, {ids_R1_, cache.left_counts()});
    return pass.plan().is_lasting();
  }

  const CausalLm& model_;
  std::string adapter_;
  std::unique_ptr<ops::Recording> recording_;  // null: the device could not remember a step
  // Of the cache's generations, the one in which a step was done op by op and may be remembered, and the one whose step
  // is remembered.
  std::optional<std::int64_t> tried_, recorded_;
  KvCache* cache_ = nullptr;  // of the last step
  bool is_ahead_ = false;     // the device has made the step after that, of likeliest_
  Tensor ids_R1_, logits_RV_, likeliest_R_;  // where a remembered step reads and writes
  std::vector<std::int32_t> likeliest_;      // of the last step; empty: not read
  Tensor read_RV_;
  std::vector<float> highest_;
  std::vector<std::int64_t> highest_ids_;
};

}  // namespace

std::unique_ptr<Decoder> maybe_make_recorded_decoder(const Model& model, const std::string& adapter) {
  const CausalLm* lm = model.causal_lm();
  if (!lm || model.device().is_cpu() || model.residency() || model.unpacking()) return nullptr;
  auto recording = ops::maybe_make_recording(model.device());
  return recording ? std::make_unique<RecordedDecoder>(*lm, adapter, std::move(recording)) : nullptr;
}

}  // namespace hone::nn
