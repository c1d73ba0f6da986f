// What the sides of a pair begin with is computed once: the same hidden states, loss and gradients as twice.
#include <gtest/gtest.h>

#include "models/golden_checks.h"
#include "nn/plan.h"

namespace hone::test {
namespace {

// Rows of pairs (a prompt of 6, 1 and 9 tokens) and of a document that belongs to none, with padding behind them.
Batch pairs() {
  HostBatch host;
  host.rows = 2, host.length = 40;
  const auto room = static_cast<std::size_t>(host.rows * host.length);
  host.ids.assign(room, 0), host.labels.assign(room, -100), host.segments.assign(room, 0);
  host.positions.assign(room, 0), host.weight.assign(room, 0);
  std::int32_t at[2] = {0, 0}, group = 0, token = 3;
  const auto add = [&](std::int32_t row, std::int32_t prompt, std::int32_t answer, Role role) {
    const std::int32_t begin = at[row];
    for (std::int32_t t = 0; t < prompt + answer; ++t) {
      const auto place = static_cast<std::size_t>(row * host.length + begin + t);
      host.ids[place] = t < prompt ? 5 + (t * 7 + group) % 20 : 2 + (token = (token * 5 + 3) % 29);
      if (t > 0 && t >= prompt) host.labels[place - 1] = host.ids[place], host.weight[place - 1] = 1, ++host.supervised;
      host.segments[place] = std::ssize(host.docs) + 1, host.positions[place] = t;
    }
    at[row] += prompt + answer;
    host.tokens += prompt + answer;
    host.docs.push_back({.row = row, .begin = begin, .end = at[row], .role = role, .group = group});
  };
  for (const auto& [row, prompt, chosen, rejected] : {std::tuple{0, 6, 4, 3}, {0, 1, 5, 2}, {1, 9, 1, 6}}) {
    add(row, prompt, chosen, Role::chosen), add(row, prompt, rejected, Role::rejected);
    ++group;
  }
  add(1, 6, 4, Role::none);
  return to_batch(host);
}

TEST(SharedPrefixes, AreFoundUpToTheFirstLabel) {
  std::vector<std::int32_t> shared;
  for (const Doc& doc : pairs().docs) shared.push_back(doc.shared);
  EXPECT_EQ(shared, (std::vector<std::int32_t>{0, 5, 0, 0, 0, 8, 0}));
}

TEST(SharedPrefixes, AreComputedOnce) {
  const Batch batch = pairs();
  EXPECT_EQ(nn::Plan(batch, nullptr).tokens(), batch.tokens);
  const nn::Plan plan(batch, nullptr, /*share_prefixes=*/true);
  EXPECT_EQ(plan.tokens(), batch.tokens - 13);
  EXPECT_EQ(plan.documents().spans().back().end, batch.tokens);
  const Tensor there = (batch.segments_BT != 0).unsqueeze(-1);
  // What is shared is taken from the first side.
  Tensor x = at::arange(80, at::kDouble).view({2, 40, 1});
  Tensor expected = x.clone();
  expected[0].slice(0, 10, 15).copy_(x[0].slice(0, 0, 5));
  expected[1].slice(0, 10, 18).copy_(x[1].slice(0, 0, 8));
  EXPECT_TRUE(at::equal(plan.from_flat(plan.to_flat(x)), expected * there));
}

TEST(SharedPrefixes, ChangeNothing) {
  for (const auto& [name, root] : {std::pair<std::string, std::filesystem::path>{"llama", kGoldens},
                                   {"qwen3-yarn", kGoldens},
                                   {"mistral-sliding", kGoldens},
                                   {"rope-dynamic-short", kGoldens},
                                   {"gpt2", "tests/golden/gpt2"},
                                   {"gemma4", kDecoders},
                                   {"opt", kDecoders},
                                   {"bloom", kDecoders},
                                   {"falcon-alibi", kDecoders}}) {
    SCOPED_TRACE(name);
    const Golden golden(name, root);
    const auto model = golden.model(Precision::fp64);
    const Batch shared = pairs();
    Batch apart = shared;
    for (Doc& doc : apart.docs) doc.shared = 0;
    const auto hidden = [&](const Batch& batch) {
      const at::NoGradGuard no_grad;
      Pass pass(batch);
      const Tensor made = model->forward(batch, pass).hidden_BTD;
      EXPECT_EQ(pass.plan().tokens(), &batch == &shared && model->shares_prefixes() ? batch.tokens - 13 : batch.tokens);
      return made;
    };
    const Tensor expected = hidden(apart);
    expect_close(hidden(shared), expected, 1e-12 * largest(expected), "hidden states");
    const auto gradients = [&](const Batch& batch, bool checkpoint) {
      Pass pass(batch);  // not in training: dropout would draw other numbers
      pass.checkpoint_blocks = checkpoint;
      mean_loss(*model, batch, pass).backward();
      std::map<std::string, Tensor> all;
      model->each_weight([&](const std::string& weight, Weight& w) {
        if (!w.is_buffer()) all[weight] = w.grad().clone(), w.clear_grad();
      });
      return all;
    };
    const auto expected_gradients = gradients(apart, false);
    for (const bool checkpoint : {false, true})
      for (const auto& [weight, gradient] : gradients(shared, checkpoint))
        expect_close(gradient, expected_gradients.at(weight), 1e-11 * std::max(1e-3, largest(gradient)), weight);
  }
}

}  // namespace
}  // namespace hone::test
