// Tokens of the decoder (nn/decoding) beside those of the layers.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <vector>

#include "models/by_cache.h"
#include "nn/decoding/choose.h"
#include "nn/kv_cache.h"
#include "ops/check.h"
#include "ops/levels.h"

namespace hone::test {

// Prompts of 5, 3 and 1 tokens; returns the first of the tokens to come.
inline std::vector<std::int32_t> fill(const CausalLm& model, nn::KvCache& cache) {
  Batch batch;
  batch.ids_BT = at::tensor({5, 9, 2, 17, 30, 8, 3, 11, 0, 0, 21, 0, 0, 0, 0}, at::kLong).view({3, 5});
  batch.docs = {{.row = 0, .begin = 0, .end = 5}, {.row = 1, .begin = 0, .end = 3}, {.row = 2, .begin = 0, .end = 1}};
  Pass pass(batch);
  pass.cache = &cache;
  model.forward(batch, pass);
  return {4, 7, 1};
}

inline Tensor to_tensor(nn::Decoder& decoder, std::int64_t rows) {
  const std::span<float> values = decoder.logits();
  return at::from_blob(values.data(), {rows, static_cast<std::int64_t>(values.size()) / rows}, at::kFloat).clone();
}

// tolerance, relative to the largest logit; 0: the same bits.
inline void expect_logits(const Tensor& made, const Tensor& expected, double tolerance, int step) {
  if (tolerance == 0) {
    EXPECT_TRUE(at::equal(made, expected)) << "step " << step << ", by " << (made - expected).abs().max().item<float>();
    return;
  }
  const double apart = (made - expected).abs().max().item<double>() / expected.abs().max().item<double>();
  EXPECT_LE(apart, tolerance) << "step " << step;
}

// Steps that the decoder took, of `steps`; row 1 leaves in the middle.
inline int compare_steps(const CausalLm& model, int steps, double tolerance = 0) {
  nn::KvCache one(model.cache_spec(), 3), other(model.cache_spec(), 3);
  std::vector<std::int32_t> ids = fill(model, one);
  fill(model, other);
  const auto decoder = nn::maybe_make_decoder(model, 3);
  int taken = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor expected = through_layers(model, ids, one);
    if (decoder && decoder->step(ids, other)) {
      ++taken;
      const Tensor made = to_tensor(*decoder, std::ssize(ids));
      expect_logits(made, expected, tolerance, step);
      const Tensor best = made.argmax(1).to(at::kInt);
      EXPECT_EQ(std::vector(decoder->likeliest().begin(), decoder->likeliest().end()),
                std::vector(best.const_data_ptr<int>(), best.const_data_ptr<int>() + best.numel()));
    } else {
      EXPECT_TRUE(at::equal(through_layers(model, ids, other), expected));
    }
    for (std::size_t r = 0; r < ids.size(); ++r)
      ids[r] = static_cast<std::int32_t>((ids[r] * 7 + step + static_cast<int>(r)) % model.vocab_size());
    if (step == steps / 2)
      for (nn::KvCache* cache : {&one, &other}) cache->keep({0, 2}), ids.resize(2);
  }
  return taken;
}

// At every level, with one thread and two.
template <class Check>
void at_levels_and_threads(Check&& check) {
  for (const ops::Level wanted : {ops::Level::basic, ops::Level::avx2, ops::Level::avx512, ops::Level::avx512bf16,
                                  ops::Level::amx}) {
    const ops::LevelScope scope(wanted);
    if (ops::level() != wanted) continue;
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(std::string(ops::name(wanted)) + ", threads " + std::to_string(threads));
      const ops::test::Threads use(threads);
      check();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace hone::test
